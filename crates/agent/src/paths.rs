//! From a path as a client writes it to an absolute one: `~` is the user's home, relative paths start there.

use crate::accounts::User;

/// Why a path cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("cannot expand the home directory of another user in '{0}'")]
    OtherHome(String),
    #[error("path '{0}' holds a zero byte")]
    ZeroByte(String),
}

/// The absolute path; an empty one is the working directory.
pub(crate) fn expand(path: &str, user: &User, workdir: Option<&str>) -> Result<String, PathError> {
    if path.contains('\0') {
        return Err(PathError::ZeroByte(path.replace('\0', "\\0")));
    }
    let path = if path.is_empty() {
        workdir.unwrap_or("~")
    } else {
        path
    };
    let joined = match path.strip_prefix('~') {
        Some("") => user.home.clone(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", user.home),
        Some(_) => return Err(PathError::OtherHome(path.to_owned())),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{}/{path}", user.home),
    };
    Ok(clean(&joined))
}

/// Drops `.`, `..` and double slashes, as Go's `filepath.Clean` does.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Last component, `/` for the root.
pub(crate) fn base(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((_, "")) | None => path.to_owned(),
        Some((_, name)) => name.to_owned(),
    }
}

/// Everything before the last component.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_the_home_of_the_user() {
        let home = "/home/user".to_owned();
        let user = User {
            name: "user".into(),
            uid: 1,
            gid: 1,
            groups: vec![],
            home,
        };
        let expand = |path| expand(path, &user, Some("/srv")).unwrap();
        assert_eq!(expand("a/b"), "/home/user/a/b");
        assert_eq!(expand("~"), "/home/user");
        assert_eq!(expand("~/x"), "/home/user/x");
        assert_eq!(expand("/a//b/../c/."), "/a/c");
        assert_eq!(expand("/../.."), "/");
        assert_eq!(expand(""), "/srv");
        assert!(super::expand("~root/x", &user, None).is_err());
        assert!(super::expand("a\0b", &user, None).is_err());
        assert_eq!(
            (base("/a/b").as_str(), parent("/a/b"), parent("/a")),
            ("b", "/a", "/")
        );
    }
}
