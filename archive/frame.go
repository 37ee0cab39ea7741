package archive

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// checkFrame returns an error unless n bytes are exactly one zstd frame without a dictionary that
// contains the size of its content. It reads only the headers of the frame and of its blocks.
func checkFrame(r io.ReaderAt, n, content int64) error {
	head := make([]byte, min(n, zstd.HeaderMaxSize))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil || h.Skippable {
		return errors.New("the content is not a zstd frame")
	}
	if !h.HasFCS || h.FrameContentSize != uint64(content) || h.DictionaryID != 0 || h.WindowSize > maxWindow {
		return errors.New("the zstd frame has another size than the manifest, a dictionary or a large window")
	}
	end, err := skipBlocks(r, int64(h.HeaderSize))
	if err != nil {
		return err
	}
	if h.HasCheckSum {
		end += 4
	}
	if end != n {
		return errors.New("the content is more or less than one zstd frame")
	}
	return nil
}

// skipBlocks returns the offset after the last block of a frame. It begins at the offset of the first block.
func skipBlocks(r io.ReaderAt, at int64) (int64, error) {
	for isLast := false; !isLast; {
		var b [3]byte
		if _, err := r.ReadAt(b[:], at); err != nil {
			return 0, errors.New("the zstd frame is cut off")
		}
		block := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
		at += 3
		switch block >> 1 & 3 {
		case 0, 2: // raw, compressed
			at += block >> 3
		case 1: // one byte, repeated
			at++
		default:
			return 0, errors.New("the zstd frame has a block of an unknown kind")
		}
		isLast = block&1 == 1
	}
	return at, nil
}
