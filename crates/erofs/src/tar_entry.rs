//! A tar stream as entries: long names, extended headers and sparse maps are resolved here.
//!
//! One pass, never seeking. After [`TarStream::next_entry`] the stored bytes of the entry are read
//! with [`TarStream::read_data`]; what is left of them is skipped by the next call.

use crate::convert::Limits;
use crate::error::{ConvertError, EntryFault, entry};
use crate::pax::{self, Pax};
use crate::sparse::{self, SparseMap};
use crate::tar_header::{Header, RECORD, until_nul};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};

/// Longest header extension (long name, PAX records); names and attributes are far below.
const EXTENSION_BYTES_MAX: u64 = 16 << 20;

/// What an entry is, without the special cases of the tar format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TarKind {
    File,
    HardLink,
    Symlink,
    CharDevice,
    BlockDevice,
    Directory,
    Fifo,
}

/// One entry; its path is as written.
#[derive(Debug)]
pub(crate) struct TarEntry {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: TarKind,
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) mtime_nsec: u32,
    pub(crate) device: (u32, u32),
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) xattrs_dropped: u64,
    pub(crate) map: SparseMap,
}

/// Header extensions collected for the entry that follows.
#[derive(Default)]
struct Pending {
    pax: Pax,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

/// The stream and how much of the current entry is unread.
pub(crate) struct TarStream<'l, R> {
    input: R,
    limits: &'l Limits,
    offset: u64,
    unread: u64,
    padding: u64,
}

impl<'l, R: Read> TarStream<'l, R> {
    pub(crate) fn new(input: R, limits: &'l Limits) -> Self {
        Self {
            input,
            limits,
            offset: 0,
            unread: 0,
            padding: 0,
        }
    }

    fn malformed(&self, why: &'static str) -> ConvertError {
        ConvertError::Malformed {
            offset: self.offset,
            why,
        }
    }

    /// Reads until `buffer` is full or the stream ends.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ConvertError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => {
                    filled += n;
                    self.offset += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(ConvertError::Read {
                        offset: self.offset,
                        source,
                    });
                }
            }
        }
        Ok(filled)
    }

    fn fill_exact(&mut self, buffer: &mut [u8]) -> Result<(), ConvertError> {
        if self.fill(buffer)? < buffer.len() {
            return Err(ConvertError::Truncated {
                offset: self.offset,
            });
        }
        Ok(())
    }

    fn record(&mut self) -> Result<[u8; RECORD], ConvertError> {
        let mut record = [0; RECORD];
        self.fill_exact(&mut record)?;
        Ok(record)
    }

    /// Stored bytes of the entry that [`Self::read_data`] has not given out.
    pub(crate) fn unread(&self) -> u64 {
        self.unread
    }

    /// Fills `buffer` with the entry's stored bytes; asking for more than there are is an error.
    pub(crate) fn read_data(&mut self, buffer: &mut [u8]) -> Result<(), ConvertError> {
        let left = self.unread.checked_sub(buffer.len() as u64);
        self.unread = left.ok_or_else(|| self.malformed("an entry is shorter than it says"))?;
        self.fill_exact(buffer)
    }

    fn skip(&mut self) -> Result<(), ConvertError> {
        let mut left = self.unread + self.padding;
        (self.unread, self.padding) = (0, 0);
        let mut sink = [0; 8192];
        while left > 0 {
            let n = usize::try_from(left).map_or(sink.len(), |l| l.min(sink.len()));
            self.fill_exact(&mut sink[..n])?;
            left -= n as u64;
        }
        Ok(())
    }

    /// The body of a header extension.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ConvertError> {
        if size > EXTENSION_BYTES_MAX {
            return Err(self.malformed("a header extension is too long"));
        }
        let mut out = Vec::new();
        self.begin_data(size);
        while self.unread > 0 {
            let start = out.len();
            let n = usize::try_from(self.unread).map_or(65536, |l| l.min(65536));
            out.resize(start + n, 0);
            self.read_data(&mut out[start..])?;
        }
        self.skip()?;
        Ok(out)
    }

    fn begin_data(&mut self, size: u64) {
        self.unread = size;
        self.padding = size.next_multiple_of(RECORD as u64) - size;
    }

    /// The next entry; `None` at the end of the archive.
    pub(crate) fn next_entry(&mut self) -> Result<Option<TarEntry>, ConvertError> {
        let mut pending = Pending::default();
        loop {
            self.skip()?;
            let mut record = [0; RECORD];
            match self.fill(&mut record)? {
                0 => return self.end(&pending),
                RECORD => {}
                _ => {
                    return Err(ConvertError::Truncated {
                        offset: self.offset,
                    });
                }
            }
            if record.iter().all(|b| *b == 0) {
                return self.end(&pending);
            }
            let header = Header::new(&record);
            let header = header.ok_or_else(|| self.malformed("a header's checksum is wrong"))?;
            let size = header.size().and_then(|n| u64::try_from(n).ok());
            let size = size.filter(|s| *s < u64::MAX / 4);
            let size = size.ok_or_else(|| self.malformed("a header's size is malformed"))?;
            match header.kind() {
                b'L' => pending.long_path = Some(until_nul(&self.extension(size)?).to_vec()),
                b'K' => pending.long_link = Some(until_nul(&self.extension(size)?).to_vec()),
                b'x' | b'X' => {
                    let records = self.extension(size)?;
                    let parsed = pax::parse(&records, &mut pending.pax);
                    parsed.map_err(|why| self.malformed(why))?;
                }
                // Global headers and volume labels say nothing about files; OCI tools skip them too.
                b'g' | b'V' => self.begin_data(size),
                _ => return self.entry(&header, size, pending).map(Some),
            }
        }
    }

    fn end(&self, pending: &Pending) -> Result<Option<TarEntry>, ConvertError> {
        let Pending {
            pax,
            long_path,
            long_link,
        } = pending;
        if long_path.is_some() || long_link.is_some() || pax.path.is_some() {
            return Err(self.malformed("a header extension has no entry"));
        }
        Ok(None)
    }

    fn entry(
        &mut self,
        header: &Header<'_>,
        size: u64,
        mut pending: Pending,
    ) -> Result<TarEntry, ConvertError> {
        let pax = &mut pending.pax;
        let name = pax.sparse.name.take().or(pax.path.take());
        let path = name.or(pending.long_path).unwrap_or_else(|| header.path());
        let link = pax.link.take().or(pending.long_link);
        let link = link.unwrap_or_else(|| header.link().to_vec());
        let kind = kind(header.kind(), &path)?;
        let bad = |field| entry(&path, EntryFault::BadNumber { field });
        let size = pax.size.unwrap_or(size);
        if size > u64::MAX / 4 {
            return Err(bad("size"));
        }
        let (mtime, mtime_nsec) = match pax.mtime {
            Some(time) => time,
            None => (narrow(header.mtime()).ok_or_else(|| bad("time"))?, 0),
        };
        let uid = pax.uid.map(i128::from).or(header.uid());
        let gid = pax.gid.map(i128::from).or(header.gid());
        let device = header.device().and_then(|(major, minor)| {
            // The widths of Linux device numbers.
            let major = u32::try_from(major).ok().filter(|m| *m < 1 << 12)?;
            let minor = u32::try_from(minor).ok().filter(|m| *m < 1 << 20)?;
            Some((major, minor))
        });
        let is_device = matches!(kind, TarKind::CharDevice | TarKind::BlockDevice);
        let xattrs = std::mem::take(&mut pax.xattrs);
        let xattrs = pax::check_xattrs(xattrs, self.limits.xattr_value_bytes_max);
        let (xattrs, xattrs_dropped) = xattrs.map_err(|fault| entry(&path, fault))?;
        let mut out = TarEntry {
            link,
            kind,
            mode: narrow::<u64>(header.mode())
                .map(|m| (m & 0o7777) as u16)
                .ok_or_else(|| bad("mode"))?,
            uid: narrow(uid).ok_or_else(|| bad("owner"))?,
            gid: narrow(gid).ok_or_else(|| bad("group"))?,
            mtime,
            mtime_nsec,
            device: match device {
                Some(device) => device,
                None if is_device => return Err(bad("device number")),
                None => (0, 0),
            },
            xattrs,
            xattrs_dropped,
            map: SparseMap {
                size: 0,
                pieces: Vec::new(),
            },
            path,
        };
        if kind == TarKind::File {
            out.map = self.map(header, size, &pending.pax, &out.path)?;
        }
        Ok(out)
    }

    /// Where the stored bytes of a file belong; reads the parts of the map that lie in the stream.
    fn map(
        &mut self,
        header: &Header<'_>,
        size: u64,
        pax: &Pax,
        path: &[u8],
    ) -> Result<SparseMap, ConvertError> {
        let broken = |why| entry(path, EntryFault::BadSparse { why });
        if header.kind() == b'S' {
            let pieces = self.gnu_map(header, path)?;
            self.begin_data(size);
            let size_real = sparse::gnu_real_size(header.0).map_err(broken)?;
            return SparseMap::checked(size_real, pieces, size).map_err(broken);
        }
        self.begin_data(size);
        if pax.sparse.major == Some(1) {
            let real = pax
                .sparse
                .real_size
                .ok_or_else(|| broken("its size is missing"))?;
            let pieces = self.pax_1_map(path)?;
            return SparseMap::checked(real, pieces, self.unread).map_err(broken);
        }
        if pax.sparse.has_map {
            let real = pax
                .sparse
                .real_size
                .ok_or_else(|| broken("its size is missing"))?;
            let pieces = sparse::pairs(&pax.sparse.map).map_err(broken)?;
            return SparseMap::checked(real, pieces, size).map_err(broken);
        }
        let whole = SparseMap::checked(size, [(0, size)], size);
        whole.map_err(|_| entry(path, EntryFault::BadNumber { field: "size" }))
    }

    fn gnu_map(
        &mut self,
        header: &Header<'_>,
        path: &[u8],
    ) -> Result<Vec<(u64, u64)>, ConvertError> {
        let broken = |why| entry(path, EntryFault::BadSparse { why });
        let mut pieces = Vec::new();
        sparse::gnu_pieces(&header.0[386..482], &mut pieces).map_err(broken)?;
        let mut more = header.0[482] != 0;
        while more {
            let record = self.record()?;
            sparse::gnu_pieces(&record[..504], &mut pieces).map_err(broken)?;
            more = record[504] != 0;
            self.check_pieces(pieces.len())?;
        }
        Ok(pieces)
    }

    /// The map of format 1.0: decimal lines before the data, padded to a record.
    fn pax_1_map(&mut self, path: &[u8]) -> Result<Vec<(u64, u64)>, ConvertError> {
        let broken = |why| entry(path, EntryFault::BadSparse { why });
        let mut numbers = Vec::new();
        let mut line = Vec::new();
        let mut wanted = None;
        while wanted.is_none_or(|w| (numbers.len() as u64) < w) {
            let mut record = [0; RECORD];
            self.read_data(&mut record)?;
            for byte in record {
                if wanted.is_some_and(|w| numbers.len() as u64 == w) {
                    break; // Padding.
                }
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let n = pax::decimal(&line).ok_or_else(|| broken("a number is malformed"))?;
                line.clear();
                match wanted {
                    None => {
                        wanted = Some(n.checked_mul(2).ok_or_else(|| broken("it is too long"))?);
                    }
                    Some(_) => numbers.push(n),
                }
            }
            self.check_pieces(numbers.len() / 2)?;
            if line.len() > 20 {
                return Err(broken("a number is malformed"));
            }
        }
        sparse::pairs(&numbers).map_err(broken)
    }

    fn check_pieces(&self, count: usize) -> Result<(), ConvertError> {
        let max = self.limits.sparse_pieces_max;
        if count as u64 > max {
            return Err(ConvertError::Limit {
                what: "pieces in a sparse file",
                max,
            });
        }
        Ok(())
    }
}

/// A number in the range of `T`; a header without it was malformed.
fn narrow<T: TryFrom<i128>>(number: Option<i128>) -> Option<T> {
    T::try_from(number?).ok()
}

fn kind(flag: u8, path: &[u8]) -> Result<TarKind, ConvertError> {
    Ok(match flag {
        // Before ustar a directory was a file whose name ends in a slash.
        0 | b'0' | b'7' if path.ends_with(b"/") => TarKind::Directory,
        0 | b'0' | b'7' | b'S' => TarKind::File,
        b'1' => TarKind::HardLink,
        b'2' => TarKind::Symlink,
        b'3' => TarKind::CharDevice,
        b'4' => TarKind::BlockDevice,
        b'5' => TarKind::Directory,
        b'6' => TarKind::Fifo,
        other => {
            let kind = char::from(other);
            return Err(entry(path, EntryFault::UnknownType { kind }));
        }
    })
}
