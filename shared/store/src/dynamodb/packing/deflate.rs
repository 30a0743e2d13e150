//! Deflate with a preset dictionary as in zlib, but without header and checksum.

use miniz_oxide::deflate::core::{
    CompressionStrategy, CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output,
    create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

use super::UnpackError;

/// Fast, and nearly as small as the best level for bodies of a few KB.
const LEVEL: i32 = 6;
/// A raw stream without header and checksum: the table detects corruption itself.
const RAW: i32 = 0;
/// Initial size of the output, as a multiple of the input.
const ROOM: usize = 8;

/// Appends the deflated `body` to `out`. `None` if the compressor fails, which is not expected.
pub(super) fn deflate(mut out: Vec<u8>, dictionary: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let flags = create_comp_flags_from_zip_params(LEVEL, RAW, CompressionStrategy::Default as i32);
    let mut compressor = CompressorOxide::new(flags);
    // A sync flush ends at a byte boundary. The output so far is dropped, because the reader has the dictionary.
    let (status, read) = compress_to_output(&mut compressor, dictionary, TDEFLFlush::Sync, |_| true);
    if status != TDEFLStatus::Okay || read != dictionary.len() {
        return None;
    }
    let (status, read) = compress_to_output(&mut compressor, body, TDEFLFlush::Finish, |bytes| {
        out.extend_from_slice(bytes);
        true
    });
    (status == TDEFLStatus::Done && read == body.len()).then_some(out)
}

/// Inflates data that was deflated with `dictionary`, if the result has at most `limit` bytes.
pub(super) fn inflate(dictionary: &[u8], deflated: &[u8], limit: usize) -> Result<Vec<u8>, UnpackError> {
    let most = dictionary.len() + limit;
    let mut bytes = dictionary.to_vec();
    bytes.resize((dictionary.len() + deflated.len() * ROOM).min(most), 0);
    let mut decompressor = Box::<DecompressorOxide>::default();
    let (mut read, mut written) = (0, dictionary.len());
    loop {
        let left = deflated.get(read..).unwrap_or_default();
        let (status, more_read, more_written) = decompress(
            &mut decompressor,
            left,
            &mut bytes,
            written,
            inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
        );
        read += more_read;
        written += more_written;
        match status {
            TINFLStatus::Done if read == deflated.len() => {
                bytes.truncate(written);
                return Ok(bytes.split_off(dictionary.len()));
            }
            TINFLStatus::HasMoreOutput if bytes.len() < most => {
                bytes.resize((bytes.len() * 2).clamp(1, most), 0);
            }
            TINFLStatus::HasMoreOutput => return Err(UnpackError::TooLarge),
            _ => return Err(UnpackError::Damaged),
        }
    }
}
