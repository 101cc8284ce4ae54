//! Users and groups of the sandbox, read from its `/etc/passwd` and `/etc/group` at each use.
//!
//! Read by hand: the agent is static, so there is no NSS, and what a program in the sandbox adds with
//! `useradd` must count at once. User forms are those of an image's USER: `name`, `uid`, `name:group`,
//! `uid:gid`.

use std::path::Path;

/// Home of a user that has no entry or no home.
const HOME_NONE: &str = "/";
const ROOT: u32 = 0;

/// A user that programs run as and files belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Passwd {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Group {
    name: String,
    gid: u32,
    members: Vec<String>,
}

/// The two files, parsed.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    passwd: Vec<Passwd>,
    groups: Vec<Group>,
}

impl Accounts {
    /// Reads both files; one that is missing or unreadable is empty.
    pub(crate) fn load() -> Self {
        let read = |path| std::fs::read(Path::new(path)).unwrap_or_default();
        let (passwd, groups) = (read("/etc/passwd"), read("/etc/group"));
        Self::parse(
            &String::from_utf8_lossy(&passwd),
            &String::from_utf8_lossy(&groups),
        )
    }

    fn parse(passwd: &str, groups: &str) -> Self {
        let passwd = passwd.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, gid, _, home, ..] = fields[..] else {
                return None;
            };
            Some(Passwd {
                name: name.to_owned(),
                uid: uid.parse().ok()?,
                gid: gid.parse().ok()?,
                home: home.to_owned(),
            })
        });
        let groups = groups.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
            let members = fields.next().unwrap_or_default().split(',');
            let members = members
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            Some(Group {
                name: name.to_owned(),
                gid: gid.parse().ok()?,
                members,
            })
        });
        Self {
            passwd: passwd.collect(),
            groups: groups.collect(),
        }
    }

    /// The user that `spec` names; `None` if there is no such user or group.
    pub(crate) fn user(&self, spec: &str) -> Option<User> {
        let (name, group) = match spec.split_once(':') {
            Some((name, group)) if !group.is_empty() => (name, Some(group)),
            Some((name, _)) => (name, None),
            None => (spec, None),
        };
        let mut user = self.without_group(name)?;
        match group {
            Some(group) => {
                // As in an image's USER: a named group is the only one.
                user.gid = self.group_id(group)?;
                user.groups = vec![user.gid];
            }
            None => user.groups = self.groups_of(&user.name, user.gid),
        }
        Some(user)
    }

    /// The default: as configured, else `user` if it exists, else root, which always exists.
    pub(crate) fn default_user(&self, configured: Option<&str>) -> Option<User> {
        match configured {
            Some(spec) => self.user(spec),
            None => self.user("user").or_else(|| self.user("root")),
        }
    }

    fn without_group(&self, name: &str) -> Option<User> {
        let number = name.parse::<u32>().ok();
        let by_name = self.passwd.iter().find(|entry| entry.name == name);
        let entry = by_name.or_else(|| self.passwd.iter().find(|entry| Some(entry.uid) == number));
        if let Some(entry) = entry {
            let home = if entry.home.is_empty() {
                HOME_NONE
            } else {
                &entry.home
            };
            let (name, home) = (entry.name.clone(), home.to_owned());
            return Some(User {
                name,
                uid: entry.uid,
                gid: entry.gid,
                groups: vec![],
                home,
            });
        }
        // An image without accounts still has its root; a number needs no entry.
        let uid = if name == "root" { ROOT } else { number? };
        let name = if uid == ROOT { "root" } else { name };
        let home = if uid == ROOT && Path::new("/root").is_dir() {
            "/root"
        } else {
            HOME_NONE
        };
        let (name, home) = (name.to_owned(), home.to_owned());
        Some(User {
            name,
            uid,
            gid: ROOT,
            groups: vec![],
            home,
        })
    }

    fn group_id(&self, group: &str) -> Option<u32> {
        let by_name = self
            .groups
            .iter()
            .find(|entry| entry.name == group)
            .map(|entry| entry.gid);
        by_name.or_else(|| group.parse().ok())
    }

    fn groups_of(&self, name: &str, primary: u32) -> Vec<u32> {
        let mut groups = vec![primary];
        for group in &self.groups {
            if group.members.iter().any(|member| member == name) && !groups.contains(&group.gid) {
                groups.push(group.gid);
            }
        }
        groups
    }

    /// Name of a user, or the number.
    pub(crate) fn user_name(&self, uid: u32) -> String {
        let entry = self.passwd.iter().find(|entry| entry.uid == uid);
        entry.map_or_else(|| uid.to_string(), |entry| entry.name.clone())
    }

    /// Name of a group, or the number.
    pub(crate) fn group_name(&self, gid: u32) -> String {
        let entry = self.groups.iter().find(|entry| entry.gid == gid);
        entry.map_or_else(|| gid.to_string(), |entry| entry.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n\
                          broken line\nsvc:x:33:33:::/bin/false\n";
    const GROUP: &str = "root:x:0:\nuser:x:1000:\ng:x:2000:user,svc\nbig:x:4000000000:user\n";

    #[test]
    fn every_form_of_a_user_is_understood() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        let ids = |spec: &str| {
            accounts
                .user(spec)
                .map(|user| (user.uid, user.gid, user.groups))
        };
        let groups = vec![1000, 2000, 4_000_000_000];
        assert_eq!(
            ids("user"),
            Some((1000, 1000, groups.clone())),
            "P19: supplementary groups"
        );
        assert_eq!(ids("1000"), Some((1000, 1000, groups)));
        assert_eq!(ids("user:g"), Some((1000, 2000, vec![2000])));
        assert_eq!(ids("77:88"), Some((77, 88, vec![88])));
        assert_eq!(ids("77"), Some((77, 0, vec![0])));
        assert_eq!(ids("nobody-here"), None);
        assert_eq!(ids("user:no-such-group"), None);
        assert_eq!(ids(""), None);
        assert_eq!(accounts.user("svc").unwrap().home, "/");
    }

    #[test]
    fn the_default_user_is_the_images_then_user_then_root() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        assert_eq!(accounts.default_user(Some("svc")).unwrap().uid, 33);
        assert_eq!(accounts.default_user(None).unwrap().name, "user");
        let empty = Accounts::parse("", "");
        let root = empty.default_user(None).unwrap();
        assert_eq!(
            (root.name.as_str(), root.uid, root.gid),
            ("root", 0, 0),
            "P60: no accounts"
        );
        assert_eq!(empty.user_name(0), "0");
    }
}
