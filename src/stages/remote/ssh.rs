//! The arguments of `ssh`, and what its error messages mean. Pure.

use base::units::shell_word;
use std::ffi::OsString;
use std::path::Path;

/// A machine, as ssh takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    /// `user@host`, or a name of ssh's config.
    pub destination: String,
    pub port: Option<u16>,
    /// The user's own options. They come first, so they win over ours.
    pub args: Vec<String>,
}

/// No prompts, no sharing with other sessions, and a broken connection is noticed after three keep-alives.
const OPTIONS: &str = "\
    BatchMode=yes ConnectTimeout=10 ServerAliveInterval=2 ServerAliveCountMax=3 ControlMaster=no ControlPath=none \
    ClearAllForwardings=yes ForwardAgent=no LogLevel=INFO";

impl Ssh {
    /// What runs `remote` in a shell there, without a terminal.
    pub fn argv(&self, remote: &str) -> Vec<OsString> {
        let mut words = vec!["ssh".to_owned()];
        words.extend(self.args.iter().cloned());
        words.push("-T".to_owned());
        words.extend(OPTIONS.split(' ').flat_map(|option| ["-o".to_owned(), option.to_owned()]));
        words.extend(self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        words.extend(["--".to_owned(), self.destination.clone(), remote.to_owned()]);
        words.into_iter().map(OsString::from).collect()
    }

    /// What prints ssh's whole configuration for this machine, and does not connect.
    pub fn configuration(&self) -> Vec<OsString> {
        let mut words = vec!["ssh".to_owned(), "-G".to_owned()];
        words.extend(self.args.iter().cloned());
        words.extend(self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        words.extend(["--".to_owned(), self.destination.clone()]);
        words.into_iter().map(OsString::from).collect()
    }
}

/// The host name that ssh connects to, of what [`Ssh::configuration`] printed.
pub fn host_name(configuration: &str) -> Option<String> {
    configuration.lines().find_map(|line| line.strip_prefix("hostname ")).map(|name| name.trim().to_owned())
}

/// A line for the shell of a machine that starts `program` with `words` there, if the folder and the program are there.
/// It works in any shell: it is one word of POSIX sh.
pub fn remote(folder: &Path, program: &Path, words: &[&str]) -> String {
    let [folder, program] = [folder, program].map(|path| shell_word(&path.to_string_lossy()));
    let words = words.join(" ");
    let script = format!(
        "d={folder} p={program}; \
         [ -d \"$d\" ] || {{ echo \"{NO_FOLDER_TEXT} $d\" >&2; exit {NO_FOLDER}; }}; \
         [ -x \"$p\" ] || {{ echo \"there is no program $p\" >&2; exit {NO_PROGRAM}; }}; \
         exec \"$p\" {words}"
    );
    format!("exec /bin/sh -c {}", shell_word(&script))
}

/// Exit codes of [`remote`].
pub const NO_FOLDER: i32 = 125;
/// What it prints with [`NO_FOLDER`], which other programs on the way also exit with.
pub const NO_FOLDER_TEXT: &str = "there is no folder";
pub const NO_PROGRAM: i32 = 127;

/// What ssh's last messages mean: what is wrong, and what to try. `None`: they contain nothing that is known.
pub fn explain_error(ssh: &Ssh, text: &str) -> Option<(&'static str, String)> {
    let errors = [
        ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key differs from the known one"),
        ("Host key verification failed", "its host key is unknown"),
        ("Permission denied", "ssh is not let in"),
        ("Could not resolve hostname", "the host name is unknown"),
        ("Connection refused", "nothing listens on its ssh port"),
        ("Operation timed out", "it does not answer"),
        ("Connection timed out", "it does not answer"),
        ("No route to host", "it cannot be reached"),
        ("Network is unreachable", "it cannot be reached"),
        ("not responding", "it does not answer any more"),
        ("Connection reset", "the connection was cut"),
        ("closed by remote host", "the connection was cut"),
        ("Connection closed", "the connection was cut"),
        ("Broken pipe", "the connection was cut"),
    ];
    let (sign, what) = errors.iter().find(|(sign, _)| text.contains(sign))?;
    let to = &ssh.destination;
    let port = ssh.port.map(|port| format!(" -p {port}")).unwrap_or_default();
    let hint = match *sign {
        "REMOTE HOST IDENTIFICATION HAS CHANGED" => {
            format!("if that is in order, `ssh-keygen -R` forgets the old key, and `ssh{port} {to}` learns the new one")
        }
        "Host key verification failed" => format!("`ssh{port} {to}` once by hand shows the key and remembers it"),
        "Permission denied" => {
            format!(
                "`ssh -o BatchMode=yes{port} {to} true` must do without a question: is the key there, or in the agent?"
            )
        }
        "Could not resolve hostname" => "check its name; `ssh: user@host` of the host sets its address".to_owned(),
        "Connection refused" => "is sshd running there, and is this its port (`port`)?".to_owned(),
        _ => format!("`ssh{port} {to} true` shows whether it is there again"),
    };
    Some((what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh() -> Ssh {
        Ssh { destination: "bench@10.0.0.2".into(), port: Some(2222), args: vec!["-i".into(), "keys/a b".into()] }
    }

    fn line(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ssh_never_prompts_and_user_options_come_first() {
        insta::assert_snapshot!(line(&ssh().argv("true")), @"ssh -i keys/a b -T -o BatchMode=yes -o ConnectTimeout=10 \
            -o ServerAliveInterval=2 -o ServerAliveCountMax=3 -o ControlMaster=no -o ControlPath=none -o \
            ClearAllForwardings=yes -o ForwardAgent=no -o LogLevel=INFO -p 2222 -- bench@10.0.0.2 true");
        assert_eq!(line(&ssh().configuration()), "ssh -G -i keys/a b -p 2222 -- bench@10.0.0.2");
        assert_eq!(host_name("user bench\nhostname 10.0.0.2\nport 22\n").as_deref(), Some("10.0.0.2"));
    }

    #[test]
    fn the_line_for_the_other_shell_is_this() {
        let text = remote(Path::new("/it's here"), Path::new("/opt/regatta"), &["__host"]);
        insta::assert_snapshot!(text.replace("; [", ";\n["), @r#"
        exec /bin/sh -c 'd='\''/it'\''\'\'''\''s here'\'' p=/opt/regatta;
        [ -d "$d" ] || { echo "there is no folder $d" >&2; exit 125; };
        [ -x "$p" ] || { echo "there is no program $p" >&2; exit 127; }; exec "$p" __host'
        "#);
    }

    #[test]
    fn ssh_errors_are_reported_with_a_hint() {
        let explained = |text: &str| explain_error(&ssh(), text).map(|(what, hint)| format!("{what}: {hint}"));
        assert_eq!(
            explained(
                "No ED25519 host key is known for [10.0.0.2]:2222 and you have requested strict checking.\nHost \
                key verification failed.\r\n"
            )
            .unwrap(),
            "its host key is unknown: `ssh -p 2222 bench@10.0.0.2` once by hand shows the key and remembers it"
        );
        assert!(
            explained("ssh: connect to host 10.0.0.2 port 2222: Connection refused")
                .unwrap()
                .contains("nothing listens")
        );
        assert!(
            explained("Timeout, server 10.0.0.2 not responding.").unwrap().starts_with("it does not answer any more")
        );
        assert_eq!(explained("tritonserver: something else"), None);
    }
}
