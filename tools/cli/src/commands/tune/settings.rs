//! Settings of the system that cost a node something as they are, each with the command that mends it.
//!
//! Owns the bounds. Nothing is changed here: the commands are root's to give, and what they do is gone with the next start of
//! the machine unless it is written down where the distribution keeps such things.

use serde::Serialize;

use crate::commands::host::facts::{Device, Interrupt, System, parse_cpus};

/// Connections that may wait to be accepted; a node asks for 1,024.
const SOMAXCONN_MIN: u64 = 1_024;
const OPEN_FILES_MIN: u64 = 65_536;
/// A ring's memory a core, with room.
const LOCKED_BYTES_MIN: u64 = 64 << 20;

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Setting {
    /// Which.
    pub(super) name: String,
    /// As it is.
    pub(super) now: String,
    /// Why that is worth a change.
    pub(super) why: &'static str,
    /// What changes it.
    pub(super) command: String,
}

/// Those that are worth a change.
pub(super) fn worth_a_change(system: &System, device: Option<&Device>) -> Vec<Setting> {
    let all = [
        governor(system),
        somaxconn(system),
        open_files(system),
        locked_memory(system),
        device.and_then(scheduler),
    ];
    all.into_iter().flatten().chain(interrupts(system)).collect()
}

fn governor(system: &System) -> Option<Setting> {
    let now = system.governor.clone().filter(|governor| governor != "performance")?;
    Some(Setting {
        name: "CPU governor".to_owned(),
        now,
        why: "a core that wakes up at a low clock answers late",
        command: "cpupower frequency-set -g performance".to_owned(),
    })
}

fn somaxconn(system: &System) -> Option<Setting> {
    let now = system.somaxconn.filter(|count| *count < SOMAXCONN_MIN)?;
    Some(Setting {
        name: "net.core.somaxconn".to_owned(),
        now: now.to_string(),
        why: "clients that connect all at once, as after a restart, are turned away",
        command: format!("sysctl -w net.core.somaxconn={}", 4 * SOMAXCONN_MIN),
    })
}

fn open_files(system: &System) -> Option<Setting> {
    let now = system.open_files.filter(|count| *count < OPEN_FILES_MIN)?;
    Some(Setting {
        name: "open files".to_owned(),
        now: now.to_string(),
        why: "every connection and many segments need one",
        command: format!(
            "systemctl edit corelog, and there: [Service] LimitNOFILE={OPEN_FILES_MIN}"
        ),
    })
}

fn locked_memory(system: &System) -> Option<Setting> {
    let now = system.locked_bytes.filter(|bytes| *bytes < LOCKED_BYTES_MIN)?;
    Some(Setting {
        name: "locked memory".to_owned(),
        now: format!("{now} bytes"),
        why: "the rings' buffers cannot be registered, and each transfer maps its own",
        command: "systemctl edit corelog, and there: [Service] LimitMEMLOCK=infinity".to_owned(),
    })
}

fn scheduler(device: &Device) -> Option<Setting> {
    // One that turns gains by an order that the kernel chooses.
    if device.is_rotational == Some(true) && !device.name.starts_with("vd") {
        return None;
    }
    let now = device.scheduler.clone().filter(|scheduler| scheduler != "none")?;
    Some(Setting {
        name: format!("scheduler of {}", device.name),
        now,
        why: "the node's order is the device's best already: another queue only adds time",
        command: format!("echo none > /sys/block/{}/queue/scheduler", device.name),
    })
}

/// Interrupts of disks and networks that all come to one CPU, where there are others.
fn interrupts(system: &System) -> Vec<Setting> {
    let places: Vec<Vec<usize>> =
        system.interrupts.iter().map(|one| parse_cpus(&one.cpus)).collect();
    let Some(first) = places.first().filter(|cpus| cpus.len() == 1) else { return Vec::new() };
    let are_together = places.len() > 1 && places.iter().all(|cpus| cpus == first);
    if !are_together || system.cpus.len() < 2 {
        return Vec::new();
    }
    let spread = system.interrupts.iter().zip(system.cpus.iter().cycle());
    let moved = spread.filter(|(one, cpu)| parse_cpus(&one.cpus) != [**cpu]);
    moved.map(|(one, cpu)| interrupt(one, *cpu)).collect()
}

fn interrupt(one: &Interrupt, cpu: usize) -> Setting {
    let Interrupt { number, device, cpus } = one;
    Setting {
        name: format!("interrupt of {device}"),
        now: format!("CPU {cpus}"),
        why: "one CPU handles all disks and networks, and the shard on it is slower than the others",
        command: format!("echo {cpu} > /proc/irq/{number}/smp_affinity_list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> System {
        System {
            kernel: None,
            cpus: vec![0, 1],
            sibling_cpus: Vec::new(),
            numa_nodes: 1,
            governor: Some("performance".to_owned()),
            memory_bytes: None,
            somaxconn: Some(4_096),
            open_files: Some(1 << 20),
            locked_bytes: None,
            io_uring_disabled: Some(0),
            load: None,
            interrupts: Vec::new(),
        }
    }

    fn commands(change: impl FnOnce(&mut System)) -> Vec<String> {
        let mut system = good();
        change(&mut system);
        worth_a_change(&system, None).into_iter().map(|setting| setting.command).collect()
    }

    #[test]
    fn only_what_costs_something_is_told_with_its_command() {
        assert!(commands(|_| {}).is_empty());
        let governor = commands(|system| system.governor = Some("powersave".to_owned()));
        assert_eq!(governor, ["cpupower frequency-set -g performance"]);
        let backlog = commands(|system| system.somaxconn = Some(128));
        assert_eq!(backlog, ["sysctl -w net.core.somaxconn=4096"]);
        assert!(
            commands(|system| system.open_files = Some(1_024))[0].contains("LimitNOFILE=65536")
        );
        assert!(
            commands(|system| system.locked_bytes = Some(8 << 20))[0].contains("LimitMEMLOCK=")
        );
    }

    #[test]
    fn interrupts_are_spread_where_one_cpu_has_them_all() {
        let all_at = |cpus: [&str; 3]| {
            let devices = ["virtio0-req.0", "virtio1-input.0", "virtio1-output.0"];
            let interrupts = devices.iter().zip(cpus).zip(25..);
            let interrupts = interrupts.map(|((device, cpus), number)| Interrupt {
                number,
                device: (*device).to_owned(),
                cpus: cpus.to_owned(),
            });
            commands(|system| system.interrupts = interrupts.collect())
        };
        assert_eq!(all_at(["0", "0", "0"]), ["echo 1 > /proc/irq/26/smp_affinity_list"]);
        assert!(all_at(["0", "1", "0"]).is_empty());
        assert!(all_at(["0-1", "0-1", "0-1"]).is_empty());
    }
}
