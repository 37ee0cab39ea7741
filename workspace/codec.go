package workspace

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/dalsegno/segno"
)

// codec encodes or decodes one object or index file. Each of its methods does both: it appends
// the value of its argument to out or, if decoding is set, reads the value from in. Each format
// is thus written down once. Decoding is strict, and err keeps the first error; encoding trusts
// its caller.
type codec struct {
	decoding bool
	in       string // the rest of the input; decoded strings share its memory
	out      []byte
	owned    bool   // decoding a tree in which an owner follows a mode with setuid or setgid
	last     string // the last key
	err      error
}

// fail records an error and ends decoding: every later read fails.
func (c *codec) fail(why string) {
	if c.err == nil {
		c.err = errors.New(why)
	}
	c.in = ""
}

// check fails unless ok is set.
func (c *codec) check(ok bool, why string) {
	if c.decoding && !ok {
		c.fail(why)
	}
}

// take decodes the next n bytes.
func (c *codec) take(n uint64) string {
	if n > uint64(len(c.in)) {
		c.fail("it is truncated")
		return ""
	}
	s := c.in[:n]
	c.in = c.in[n:]
	return s
}

// raw codes a fixed number of bytes.
func (c *codec) raw(b []byte) {
	if c.decoding {
		copy(b, c.take(uint64(len(b))))
	} else {
		c.out = append(c.out, b...)
	}
}

func (c *codec) byte(v *byte) {
	if !c.decoding {
		c.out = append(c.out, *v)
	} else if s := c.take(1); s != "" {
		*v = s[0]
	}
}

// uint codes an unsigned varint in its shortest form. Its value is at most limit.
func (c *codec) uint(v *uint64, limit uint64) {
	if !c.decoding {
		c.out = binary.AppendUvarint(c.out, *v)
		return
	}
	n := 0
	*v, n = binary.Uvarint([]byte(c.in[:min(len(c.in), binary.MaxVarintLen64)]))
	if n <= 0 || *v > limit || n > 1 && c.in[n-1] == 0 {
		*v = 0
		c.fail("a malformed number, or one out of range")
		return
	}
	c.in = c.in[n:]
}

// text codes a string and its length.
func (c *codec) text(s *string) {
	n := uint64(len(*s))
	c.uint(&n, 1<<63)
	if c.decoding {
		*s = c.take(n)
	} else {
		c.out = append(c.out, *s...)
	}
}

// key codes a string by which entries are sorted. Each key must be greater than the previous
// one.
func (c *codec) key(s *string) {
	c.text(s)
	c.check(c.last == "" || *s > c.last, "the names are not in order")
	c.last = *s
}

// name codes a key that is a name in a directory.
func (c *codec) name(s *string) {
	c.key(s)
	c.check(validName(*s), "an invalid name")
}

// hash codes a hash that is not zero.
func (c *codec) hash(h *segno.Hash) {
	c.raw(h[:])
	c.check(!h.IsZero(), "a hash of zeros")
}

func (c *codec) bool(v *bool) {
	b := byte(0)
	if *v {
		b = 1
	}
	c.byte(&b)
	c.check(b <= 1, "neither true nor false")
	*v = b == 1
}

// optional codes a hash that may be zero.
func (c *codec) optional(h *segno.Hash) {
	has := !h.IsZero()
	if c.bool(&has); has {
		c.hash(h)
	}
}

// validName reports whether s is a possible name in a directory.
func validName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// validPath reports whether s consists of valid names joined by slashes, so that it stays
// inside the root.
func validPath(s string) bool {
	for name := range strings.SplitSeq(s, "/") {
		if !validName(name) {
			return false
		}
	}
	return true
}
