package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// headTail keeps the beginning and the end of the data written to it.
type headTail struct {
	each int // bytes kept of the beginning, and of the end
	head []byte
	tail []byte // at least the last each bytes after the head
	size int    // bytes after the head
}

func (c *headTail) Write(p []byte) (int, error) {
	n := len(p)
	room := min(c.each-len(c.head), n)
	c.head = append(c.head, p[:room]...)
	p = p[room:]
	c.size += len(p)
	c.tail = append(c.tail, p[max(0, len(p)-c.each):]...)
	if len(c.tail) > 4*c.each {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-c.each:]...)
	}
	return n, nil
}

// String returns the beginning and the end, and how many bytes are left out between them.
func (c *headTail) String() string {
	head, tail := c.head, c.tail[max(0, len(c.tail)-c.each):]
	left := c.size - len(tail)
	if left == 0 {
		return strings.ToValidUTF8(string(head)+string(tail), "\uFFFD")
	}
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ { // leave out a truncated character
		if at := len(head) - i; utf8.RuneStart(head[at]) {
			if !utf8.FullRune(head[at:]) {
				left += i
				head = head[:at]
			}
			break
		}
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
		left++
	}
	return strings.ToValidUTF8(fmt.Sprintf("%s\n… %d bytes left out …\n%s", head, left, tail), "\uFFFD")
}
