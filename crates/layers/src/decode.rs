//! Compressed layers by their first bytes: what the media type says is not always true.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// Read buffer before the decoder.
const BUFFER: usize = 128 << 10;

type Buffered<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// The plain bytes of a gzip, zstd or plain stream.
pub(crate) enum Decoder<R: Read> {
    Plain(Buffered<R>),
    Gzip(Box<MultiGzDecoder<Buffered<R>>>),
    Zstd(zstd::stream::read::Decoder<'static, Buffered<R>>),
}

impl<R: Read> Decoder<R> {
    /// Looks at the first bytes.
    pub(crate) fn new(mut input: R) -> io::Result<Self> {
        let mut magic = Vec::new();
        input.by_ref().take(6).read_to_end(&mut magic)?;
        let kind = kind(&magic);
        let buffered = BufReader::with_capacity(BUFFER, Cursor::new(magic).chain(input));
        match kind {
            Kind::Gzip => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(buffered)))),
            Kind::Zstd => Ok(Self::Zstd(zstd::stream::read::Decoder::with_buffer(
                buffered,
            )?)),
            Kind::Plain => Ok(Self::Plain(buffered)),
            Kind::Other(name) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it is compressed with {name}; gzip, zstd and plain are read"),
            )),
        }
    }

    /// The compressed stream, what was buffered of it already taken out of it.
    pub(crate) fn into_inner(self) -> R {
        let mut buffered = match self {
            Self::Plain(inner) => inner,
            Self::Gzip(inner) => inner.into_inner(),
            Self::Zstd(inner) => inner.finish(),
        };
        let left = buffered.buffer().len();
        buffered.consume(left);
        buffered.into_inner().into_inner().1
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.read(buffer),
            Self::Gzip(inner) => inner.read(buffer),
            Self::Zstd(inner) => inner.read(buffer),
        }
    }
}

enum Kind {
    Plain,
    Gzip,
    Zstd,
    Other(&'static str),
}

fn kind(magic: &[u8]) -> Kind {
    match magic {
        [0x1f, 0x8b, ..] => Kind::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Kind::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Kind::Other("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Kind::Other("bzip2"),
        _ => Kind::Plain,
    }
}

/// Whether the bytes begin a compressed stream.
pub(crate) fn is_compressed(magic: &[u8]) -> bool {
    !matches!(kind(magic), Kind::Plain)
}
