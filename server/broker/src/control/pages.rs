//! The admin server's pages of a node.
//!
//! Owns `/metrics` with its pages of partitions, and `/ready`. Counters are fetched from every core when asked, merged, and rendered; nothing is kept.

use std::cmp::Reverse;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use commitlog::Disk;
use futures_lite::future::or;

use crate::admin::{Page, Pages, Status};
use crate::calls::{Reply, Request};
use crate::control::{Control, Readiness};
use crate::error_code::SERIES_NAMES;
use crate::mesh_call::Message;
use crate::metrics::partitions::BUSIEST_COUNT;
use crate::metrics::{self, NodeFacts};
use crate::platform::{Mesh, Platform};

/// How long the cores may take to say what they count; scrapers give up after 10 s.
const CORES_TIME_MAX: Duration = Duration::from_secs(5);
/// Scrapes at once. A core that does not answer must not keep the admin server from whoever asks for `/ready`.
const SCRAPES_MAX: usize = 4;
/// Prometheus's text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What there is.
const CONTENTS: &str = "\
/metrics                 Prometheus text format
/metrics/partitions      the 100 partitions that move most
/metrics/partitions/all  every partition
/ready                   200 when serving
";
const _: () = assert!(BUSIEST_COUNT == 100, "the contents say how many");

/// The pages.
pub(super) struct AdminPages<P: Platform, M: Mesh<Message>> {
    control: Rc<Control<P, M>>,
    /// A copy for each scrape under way.
    scrapes: Rc<()>,
}

impl<P: Platform, M: Mesh<Message>> AdminPages<P, M> {
    pub(super) fn new(control: &Rc<Control<P, M>>) -> Self {
        Self { control: Rc::clone(control), scrapes: Rc::new(()) }
    }
}

impl<P: Platform, M: Mesh<Message>> Pages for AdminPages<P, M> {
    async fn page(&self, path: &str) -> Page {
        match path {
            "/ready" => self.ready(),
            "/metrics" => self.in_time(self.gather()).await,
            "/metrics/partitions" => self.in_time(self.partitions(BUSIEST_COUNT)).await,
            "/metrics/partitions/all" => self.in_time(self.partitions(usize::MAX)).await,
            "/" => Page::text(Status::Ok, CONTENTS),
            _ => Page::text(Status::NotFound, CONTENTS),
        }
    }
}

impl<P: Platform, M: Mesh<Message>> AdminPages<P, M> {
    fn ready(&self) -> Page {
        match self.control.readiness.get() {
            Readiness::Ready => Page::text(Status::Ok, "ready\n"),
            Readiness::Starting(what) => {
                Page::text(Status::Unavailable, format!("starting: {what}\n"))
            }
            Readiness::Degraded(why) => Page::text(
                Status::Unavailable,
                format!("serving data, metadata is read-only: {why}\n"),
            ),
            Readiness::Stopping => Page::text(Status::Unavailable, "stopping\n"),
        }
    }

    /// The page that `gathering` makes of what the cores say, if they say it in time.
    async fn in_time(&self, gathering: impl Future<Output = Page>) -> Page {
        // A core that has not opened yet cannot be asked: it would not answer until it has.
        let standing = self.control.readiness.get();
        if matches!(standing, Readiness::Starting(_) | Readiness::Stopping) {
            return Page::text(Status::Unavailable, "not serving\n");
        }
        let scrape = Rc::clone(&self.scrapes);
        if Rc::strong_count(&scrape) > SCRAPES_MAX + 1 {
            return Page::text(Status::Unavailable, "too many scrapes at once\n");
        }
        let gathering = async { Some(gathering.await) };
        let late = async {
            self.control.platform.sleep(CORES_TIME_MAX).await;
            None
        };
        let gathered = or(gathering, late).await;
        drop(scrape);
        gathered.unwrap_or_else(|| {
            Page::text(Status::Unavailable, "a core, or the disk, does not answer\n")
        })
    }

    /// The partitions that move most, of every core those that may be among them.
    async fn partitions(&self, count_max: usize) -> Page {
        let replies = self.control.ask_all(|| Request::PartitionTraffic { count_max }).await;
        let partitions = replies.into_iter().filter_map(|(_, reply)| match reply {
            Some(Reply::PartitionTraffic(partitions)) => Some(partitions),
            _ => None,
        });
        let mut partitions: Vec<_> = partitions.flatten().collect();
        // Stable: those that move alike stay in the order of their core.
        partitions.sort_by_key(|partition| Reverse(partition.rate));
        partitions.truncate(count_max);
        Page {
            status: Status::Ok,
            content_type: CONTENT_TYPE,
            body: metrics::partitions::render_partitions(&partitions),
        }
    }

    async fn gather(&self) -> Page {
        let replies = self.control.ask_all(|| Request::Metrics).await;
        let snapshots = replies.into_iter().filter_map(|(_, reply)| match reply {
            Some(Reply::Metrics(snapshot)) => Some(*snapshot),
            _ => None,
        });
        let snapshots: Vec<_> = snapshots.collect();
        let platform = &self.control.platform;
        let facts = NodeFacts {
            version: env!("CARGO_PKG_VERSION"),
            resident_bytes: platform.resident_bytes(),
            disk_free_bytes: platform.disk().free_bytes().await.unwrap_or(0),
            uptime: platform.monotonic().saturating_sub(self.control.started),
            replayed: self.control.replayed.get(),
        };
        Page {
            status: Status::Ok,
            content_type: CONTENT_TYPE,
            body: metrics::render(&snapshots, &facts, SERIES_NAMES),
        }
    }
}
