//! What a program sees as its environment and command line.

use crate::accounts::User;
use api::envd::process::ProcessConfig;
use model::attach::Init;
use std::collections::BTreeMap;

const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Carries the PATH over `/etc/profile` into [`RESTORE_PATH`]; unset before the command runs.
const PATH_CARRIER: &str = "WARREN_PATH";

/// Debian's `/etc/profile` sets PATH whatever it was. This puts back what the image or the caller said
/// (P18: as in `docker exec`) and keeps, in front, what profiles added beyond the usual directories.
/// One line, so that the line numbers in messages of the shell stay true.
const RESTORE_PATH: &str = concat!(
    "_w=; IFS=:; set -f; for _d in $PATH; do case \":$WARREN_PATH:/usr/local/sbin:/usr/local/bin",
    ":/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/games:/usr/games:\" in *\":$_d:\"*) ;; ",
    "*) _w=$_w$_d: ;; esac; done; set +f; export PATH=\"$_w$WARREN_PATH\"; ",
    "unset _w _d IFS WARREN_PATH; ",
);

/// Identity of the sandbox as its programs see it.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) sandbox_id: String,
    pub(crate) template_id: String,
}

impl Identity {
    fn variables(&self) -> [(&'static str, &str); 3] {
        [
            ("E2B_SANDBOX", "true"),
            ("E2B_SANDBOX_ID", &self.sandbox_id),
            ("E2B_TEMPLATE_ID", &self.template_id),
        ]
    }
}

/// The sandbox's own environment, as `GET /envs` shows it: image, then create, then identity.
pub(crate) fn global(init: &Init, identity: &Identity) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = init.image_env.iter().cloned().collect();
    env.extend(init.env.clone());
    let identity = identity
        .variables()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    env.extend(identity);
    env
}

/// A program ready to be started: environment and command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) argv: Vec<String>,
}

/// Environment, lowest precedence first: defaults, the user's, the sandbox's, the call's.
pub(crate) fn command(
    config: &ProcessConfig,
    user: &User,
    init: &Init,
    identity: &Identity,
) -> Command {
    let mut given = global(init, identity);
    given.extend(config.envs.clone());
    let path_is_given = given.contains_key("PATH");
    let mut env = BTreeMap::from([("PATH", PATH_DEFAULT), ("HOME", &user.home)].map(owned));
    env.extend([("USER", &*user.name), ("LOGNAME", &*user.name)].map(owned));
    env.extend(given);
    let mut argv = vec![config.cmd.clone()];
    argv.extend(config.args.iter().cloned());
    if path_is_given && let Some(script) = login_script(&mut argv) {
        script.insert_str(0, RESTORE_PATH);
        let path = env.get("PATH").cloned().unwrap_or_default();
        env.insert(PATH_CARRIER.to_owned(), path);
    }
    Command { env, argv }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The script of `bash -l -c SCRIPT`, which is how E2B clients run every command.
fn login_script(argv: &mut [String]) -> Option<&mut String> {
    let [shell, login, flag, script, ..] = argv else {
        return None;
    };
    let is_shell = matches!(
        crate::paths::base(shell).as_str(),
        "bash" | "sh" | "dash" | "ash"
    );
    (is_shell && login == "-l" && flag == "-c").then_some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_with(image: &[(&str, &str)], call: &[(&str, &str)], args: &[&str]) -> Command {
        let home = "/home/user".to_owned();
        let user = User {
            name: "user".into(),
            uid: 1,
            gid: 1,
            groups: vec![],
            home,
        };
        let identity = Identity {
            sandbox_id: "i1".into(),
            template_id: "t1".into(),
        };
        let init = Init {
            image_env: image.iter().map(|pair| owned(*pair)).collect(),
            env: BTreeMap::from([owned(("A", "sandbox")), owned(("E2B_SANDBOX_ID", "forged"))]),
            ..Init::default()
        };
        let config = ProcessConfig {
            cmd: "/bin/bash".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            envs: call.iter().map(|pair| owned(*pair)).collect(),
            cwd: None,
        };
        command(&config, &user, &init, &identity)
    }

    #[test]
    fn later_sources_win_and_the_identity_cannot_be_forged() {
        let env = command_with(&[("A", "image"), ("B", "image")], &[("C", "call")], &[]).env;
        assert_eq!(env["A"], "sandbox");
        assert_eq!(env["B"], "image");
        assert_eq!(env["C"], "call");
        assert_eq!(env["HOME"], "/home/user");
        assert_eq!(env["E2B_SANDBOX_ID"], "i1");
        assert_eq!(env["PATH"], PATH_DEFAULT);
    }

    #[test]
    fn only_a_login_shell_with_a_given_path_is_touched() {
        let args = ["-l", "-c", "which tool"];
        assert_eq!(command_with(&[], &[], &args).argv[3], "which tool");
        let path = [("PATH", "/opt/x:/bin")];
        let command = command_with(&path, &[], &args);
        assert_eq!(command.env[PATH_CARRIER], "/opt/x:/bin");
        assert!(command.argv[3].ends_with("; which tool"));
        assert!(!command.argv[3].contains('\n'));
        assert_eq!(command_with(&path, &[], &["-c", "x"]).argv[2], "x");
    }
}
