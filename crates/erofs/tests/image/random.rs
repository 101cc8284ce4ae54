//! Random trees through the tar crate's builder come back as they were.

use crate::fixture::{convert_bytes, header, read_back};
use erofs::FileKind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tar::EntryType;

#[derive(Debug, Clone)]
enum Item {
    File(Vec<u8>),
    Directory,
    Symlink(String),
}

fn item() -> impl Strategy<Value = Item> {
    let file = (0usize..9000, any::<u8>()).prop_map(|(n, byte)| Item::File(vec![byte; n]));
    let holes = (1usize..4, 0usize..66_000).prop_map(|(zeros, n)| {
        Item::File([vec![0; zeros << 16], vec![3; n], vec![0; 70_000]].concat())
    });
    prop_oneof![
        4 => file,
        1 => holes,
        2 => Just(Item::Directory),
        1 => "[a-z]{1,9}(/[a-z]{1,9}){0,12}".prop_map(Item::Symlink),
    ]
}

/// Up to 60 things in 1 to 12 directories, with odd names.
fn tree() -> impl Strategy<Value = BTreeMap<String, (Item, u32, u64)>> {
    let name = "[a-zü !-]{1,40}|[x]{255}|[.]{3}";
    let path = (0u8..12, name).prop_map(|(d, name)| format!("dir{d}/{name}"));
    let meta = (item(), 0u32..0o10000, 0u64..1 << 33);
    proptest::collection::btree_map(path, meta, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn random_trees_round_trip(tree in tree()) {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, (item, mode, mtime)) in &tree {
            let (kind, data) = match item {
                Item::File(data) => (EntryType::Regular, &data[..]),
                Item::Directory => (EntryType::Directory, &[][..]),
                Item::Symlink(_) => (EntryType::Symlink, &[][..]),
            };
            let mut head = header(kind, data.len() as u64);
            head.set_mode(*mode);
            head.set_mtime(*mtime);
            match item {
                Item::Symlink(target) => tar.append_link(&mut head, path, target),
                _ => tar.append_data(&mut head, path, data),
            }.expect("in memory");
        }
        let bytes = tar.into_inner().expect("in memory");
        let found = read_back(&convert_bytes(&bytes).expect("converts").0);
        for (path, (item, mode, mtime)) in &tree {
            let seen = &found[path];
            prop_assert_eq!(seen.inode.mtime.cast_unsigned(), *mtime);
            match item {
                Item::File(data) => {
                    prop_assert!(&seen.content == data, "content of {}", path);
                    prop_assert_eq!(u32::from(seen.inode.mode), *mode);
                }
                Item::Directory => prop_assert_eq!(seen.inode.kind, FileKind::Directory),
                Item::Symlink(target) => prop_assert_eq!(&seen.content[..], target.as_bytes()),
            }
        }
        let directories = found.keys().filter(|k| !k.is_empty() && !k.contains('/')).count();
        prop_assert_eq!(found.len(), tree.len() + directories + 1);
    }
}
