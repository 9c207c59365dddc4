//! The threads of a process, and their priority.

use std::{fs, path::Path};

use super::Process;

impl Process {
    /// Its threads: their names, and their niceness.
    pub(crate) fn threads(&self) -> Vec<(String, i64)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let threads = tasks.filter_map(|task| {
            let task = task.unwrap().path();
            let name = fs::read_to_string(task.join("comm")).ok()?;
            Some((name.trim_end().to_owned(), niceness(&task)?))
        });
        threads.collect()
    }
}

/// The niceness that exceeds that of this process by so much, or the highest one.
pub(crate) fn usual_niceness_and(more: i64) -> i64 {
    let usual = niceness(Path::new("/proc/self")).unwrap();
    (usual + more).min(19)
}

/// The niceness of a process or a thread; `None` if it has ended.
fn niceness(task: &Path) -> Option<i64> {
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    // niceness is field 19 (proc(5)), and two fields come before the split.
    after_name.split(' ').nth(16)?.parse().ok()
}
