//! The rules, one function each: what the design promises about the tree, found broken or not.
//!
//! Owns the list. A rule is pure: it sees a [`Workspace`] and returns every place that breaks it; its test proves that it
//! can fail.

mod dependencies;
mod formats;
mod pitfalls;
mod sources;
mod text;
mod vocabulary;

use crate::report::Violation;
use crate::workspace::Workspace;

pub(crate) use formats::FORMATS_FILE;
pub(crate) use pitfalls::PITFALLS_FILE;

/// One promise of the design.
pub(crate) struct Rule {
    /// Its name in the report.
    pub(crate) name: &'static str,
    /// What holds when nothing is found.
    pub(crate) promise: &'static str,
    /// What to do when something is.
    pub(crate) cure: &'static str,
    /// Every place that breaks it.
    pub(crate) find: fn(&Workspace) -> Vec<Violation>,
}

/// All of them, in the order in which they are printed.
pub(crate) const ALL: &[Rule] = &[
    Rule {
        name: "layers",
        promise: "storage-engine <- replication <- server <- tools: no dependency points up",
        cure: "move the code down, or hand the upper part in through a trait of the lower crate",
        find: dependencies::point_down,
    },
    Rule {
        name: "siblings",
        promise: "no crate of replication/ knows another",
        cure: "let the broker carry the value from one core to the other",
        find: dependencies::replication_has_no_siblings,
    },
    Rule {
        name: "names",
        promise: "a crate is called like its folder, in a folder that is a layer, with the workspace's lints",
        cure: "rename it, or add `[lints] workspace = true`",
        find: dependencies::members_are_named_like_folders,
    },
    Rule {
        name: "one runtime",
        promise: "glommio stands in server/node only, and no other runtime anywhere",
        cure: "reach disk and sockets through the Disk and Platform traits",
        find: dependencies::one_runtime,
    },
    Rule {
        name: "purity",
        promise: "pure crates are no_std, forbid unsafe code and need pure crates only",
        cure: "make time, identity and randomness arguments, and effects return values",
        find: dependencies::pure_crates_are_pure,
    },
    Rule {
        name: "wire types",
        promise: "wire:: is named in server/wire, the broker's edges, tools and benches only",
        cure: "convert in broker/handlers or broker/peer; cores have request types of their own",
        find: vocabulary::wire_stops_at_the_edges,
    },
    Rule {
        name: "serde",
        promise: "serde is named in the broker's config and admin, the console, tools and tests only",
        cure: "write the format by hand where it outlives the process; else move it to config or admin",
        find: vocabulary::serde_stops_at_the_edges,
    },
    Rule {
        name: "module docs",
        promise: "every source file opens with `//!`",
        cure: "say what the file owns and what it must never do",
        find: sources::open_with_module_doc,
    },
    Rule {
        name: "file length",
        promise: "no source file is longer than 1,000 lines",
        cure: "split by subject; tests past 200 lines move to a file of their own",
        find: sources::are_short,
    },
    Rule {
        name: "expect",
        promise: "lints are expected with a reason, never allowed",
        cure: "write `#[expect(lint, reason = \"...\")]`",
        find: sources::never_allow,
    },
    Rule {
        name: "safety",
        promise: "unsafe code stands in server/node only",
        cure: "move it behind a safe function of server/node",
        find: sources::unsafe_stays_in_node,
    },
    Rule {
        name: "pitfalls",
        promise: "every pitfall has a test that exists, or names the area that brings it",
        cure: "correct docs/pitfalls.tsv",
        find: pitfalls::have_tests,
    },
    Rule {
        name: "formats",
        promise: "every format names the tests that hold its bytes, and they exist",
        cure: "correct the section's `Tests:` in docs/formats.md",
        find: formats::name_their_tests,
    },
];
