package patch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strings"
)

// indexLine returns the line with git's blob names of both sides. 'git apply' checks the names for
// a binary file, and 'patch' uses the mode in the line to recognize a symlink. digits is the length
// of the names.
func indexLine(from, to side, digits int) string {
	line := fmt.Sprintf("index %s..%s", blobName(from)[:digits], blobName(to)[:digits])
	if from.mode == to.mode {
		line += " " + to.mode
	}
	return line + "\n"
}

// gitBinary returns the part of a git patch with the content of a binary file, in both directions.
func gitBinary(from, to side) string {
	return fmt.Sprintf("GIT binary patch\n%s\n%s\n", literal(to.content), literal(from.content))
}

// blobName returns git's name of a blob. The name of a missing file is zero.
func blobName(s side) string {
	if s.mode == "" {
		return strings.Repeat("0", 2*sha1.Size)
	}
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(s.content)), s.content...)))
}

// literal deflates content and encodes it in lines of git's base 85. A line encodes at most 52 bytes. Its first letter
// is the number of bytes (A to Z for 1 to 26, a to z for 27 to 52). Each four bytes, padded with zeros, become five
// digits. encoding/ascii85 has another alphabet, so it cannot be used.
func literal(content []byte) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(content) // a write to a buffer does not fail
	_ = z.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "literal %d\n", len(content))
	for rest := packed.Bytes(); len(rest) > 0; {
		line := rest[:min(len(rest), 52)]
		rest = rest[len(line):]
		if len(line) <= 26 {
			b.WriteByte(byte('A' + len(line) - 1))
		} else {
			b.WriteByte(byte('a' + len(line) - 27))
		}
		for len(line) > 0 {
			var four [4]byte
			line = line[copy(four[:], line):]
			n := binary.BigEndian.Uint32(four[:])
			var five [5]byte
			for i := 4; i >= 0; i-- {
				five[i] = digits[n%85]
				n /= 85
			}
			b.Write(five[:])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
