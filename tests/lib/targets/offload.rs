//! Super-frames and partial checksums, in the form of Linux: a virtio-net header of 10 bytes, the number of
//! contiguous bytes, and the frame.

use super::Choices;
use engine::packet::pool;

/// Longer frames are only slower.
const BYTES_MAX: usize = 4 << 10;

/// Segments or completes a frame, and sends the result.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(BYTES_MAX)]);
    let mut vnet = [0; 10];
    let given = choices.bytes(vnet.len());
    vnet[..given.len()].copy_from_slice(given);
    let head = usize::from(choices.byte()) * 2;
    let frame = choices.0;
    let packets = ports::segment_frame(&vnet, frame, head);
    if vnet[1] & 0x7f == 0 {
        assert!(packets.iter().all(|p| p.len() == frame.len()));
    } else if let Some(first) = packets.first() {
        // Each segment has the headers, and their payloads together are the original payload.
        let segment = usize::from(u16::from_ne_bytes([vnet[4], vnet[5]]));
        let all: usize = packets.iter().map(engine::packet::Packet::len).sum();
        let headers = (all - frame.len()).checked_div(packets.len() - 1);
        let headers = headers.unwrap_or(first.len().saturating_sub(segment));
        assert!(packets.iter().all(|p| p.len() <= headers + segment));
        if packets.len() > 1 {
            let parts = packets.iter().flat_map(|p| &p.data()[headers..]);
            assert!(parts.eq(&frame[headers..]));
        }
    }
    // Packets sent as super-frames arrive unchanged.
    let frames: Vec<_> = packets.iter().map(|p| p.data().to_vec()).collect();
    let sent = ports::merge_frames(&frames);
    let again = sent.iter().flat_map(|message| {
        let (vnet, frame) = message
            .split_first_chunk()
            .expect("fold writes a virtio-net header");
        ports::segment_frame(vnet, frame, frame.len())
    });
    let again: Vec<_> = again.map(|p| p.data().to_vec()).collect();
    assert_eq!(again, frames);
    drop(packets);
    assert_eq!(pool::balance(), before, "buffers were leaked");
}
