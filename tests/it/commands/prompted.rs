//! Questions at a terminal, which a pseudoterminal stands for.

use std::process::Command;

use super::place::{PASSWORD, Place, Ran, ran};
use crate::harness::nearhead;

/// Runs a program at a terminal: waits for each text, types its answer, and prints what was shown.
/// The terminal stays open when the program has ended, and shows a mark: where the last holder of a
/// terminal closes it, what it wrote just before may be lost.
const TERMINAL: &str = r#"
import os, subprocess, sys, threading
dialogue, program = sys.argv[1].split("|"), sys.argv[2:]
keyboard, terminal = os.openpty()
child = subprocess.Popen(
    program, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
END = b"\0"
def mark_end():
    child.wait()
    os.write(terminal, END)
threading.Thread(target=mark_end).start()
shown, place = b"", 0
def show():
    global shown
    shown += os.read(keyboard, 4096)
for wanted, typed in zip(dialogue[::2], dialogue[1::2]):
    while wanted.encode() not in shown[place:]:
        if END in shown:
            sys.exit(f"{wanted} was not shown: {shown}")
        show()
    place = len(shown)
    os.write(keyboard, typed.encode().decode("unicode_escape").encode())
while END not in shown:
    show()
sys.stdout.write(shown.decode())
sys.exit(child.wait())
"#;

/// Runs a command at a terminal.
fn at_terminal(place: &Place, line: &str, dialogue: &str) -> Ran {
    let Place::Folder(root) = place else {
        panic!("no folder")
    };
    let words: Vec<&str> = line.split(' ').collect();
    let program = nearhead([]);
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, dialogue]);
    command.arg(program.get_program()).args(words);
    command.arg("--data-dir").arg(root);
    ran(command, "")
}

#[test]
fn a_person_is_asked() {
    let place = Place::folder("commands-prompted");
    for line in [
        "key create --tenant acme --create-tenant --name web",
        "admin create-account admin",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(place.run_with(&words, PASSWORD).code, Some(0), "{line}");
    }
    for (line, dialogue, code, part) in [
        ("key revoke web", "[y/N]|n\\n", 1, "nothing was changed"),
        ("key revoke web", "[y/N]|\\n", 1, "nothing was changed"),
        ("key revoke web", "(web of acme, |y\\n", 0, "revoked "),
        (
            "tenant remove acme",
            "with 1 key and its accounts?|no\\n",
            1,
            "nothing was changed",
        ),
        (
            "tenant remove acme",
            "Remove the tenant acme|yes\\n",
            0,
            "removed acme",
        ),
        (
            "admin reset-password",
            "password of admin:|a long new password\\n|Again:|a long new password\\n",
            0,
            "changed the password of admin",
        ),
        (
            "admin reset-password",
            "of admin:|a long new password\\n|Again:|another password\\n|not the same.\r\nNew password of admin:|\\x03",
            1,
            "nothing was changed",
        ),
        (
            "admin reset-password",
            "of admin:|short\\n|Again:|short\\n",
            2,
            "at least 12",
        ),
        (
            "admin reset-password",
            "of admin:|a long new pass\\x03",
            1,
            "nothing was changed",
        ),
    ] {
        let ran = at_terminal(&place, line, dialogue);
        assert_eq!(ran.code, Some(code), "{line}: {}{}", ran.out, ran.err);
        assert!(
            ran.out.contains(part),
            "{line}: {part:?} is not in {}",
            ran.out
        );
        for typed in ["a long new", "another password", "short\r"] {
            assert!(!ran.out.contains(typed), "{line}: {}", ran.out);
        }
    }
}
