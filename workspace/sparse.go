package workspace

import (
	"bytes"
	"io"

	"github.com/dalsegno/segno/internal/vfs"
)

// block is the unit in which zeros are looked for: no hole is smaller.
const block = 4096

// writeContent fills a new file. Where the content has minHole zeros or more in a
// row the file gets a hole, whether or not the one that was saved had it there.
func writeContent(f vfs.File, content []byte) error {
	for at := 0; at < len(content); {
		zeros := zeroBlocks(content[at:])
		if zeros < minHole {
			zeros = 0
		}
		end := at + zeros + nextHole(content[at+zeros:])
		if zeros > 0 {
			if _, err := f.Seek(int64(zeros), io.SeekCurrent); err != nil {
				return err
			}
		}
		if at+zeros < end {
			if _, err := f.Write(content[at+zeros : end]); err != nil {
				return err
			}
		} else if err := f.Truncate(int64(len(content))); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nextHole returns how many bytes come before minHole zeros in a row.
func nextHole(p []byte) int {
	for at := 0; at < len(p); {
		zeros := zeroBlocks(p[at:])
		if zeros >= minHole {
			return at
		}
		at = min(len(p), at+zeros+block)
	}
	return len(p)
}

// zeroBlocks returns how many bytes at the start of p are zeros, in whole blocks; an
// end that is shorter counts as one.
func zeroBlocks(p []byte) (n int) {
	var zero [block]byte
	for n < len(p) {
		part := p[n:min(len(p), n+block)]
		if !bytes.Equal(part, zero[:len(part)]) {
			break
		}
		n += len(part)
	}
	return n
}
