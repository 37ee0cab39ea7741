package agentrig

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// screen emulates the part of a terminal that is needed to read the visible text. The agent
// moves the cursor over gaps instead of printing spaces, so its output without the escape
// sequences would not be that text.
type screen struct {
	cols, rows int
	cells      [][]rune
	x, y       int
	savedX     int
	savedY     int
	top        int    // the first line that scrolls
	bottom     int    // one after the last line that scrolls
	last       rune   // the last character that was written
	pending    []byte // an unfinished escape sequence or character
}

func newScreen(cols, rows int) *screen {
	s := &screen{cols: cols, rows: rows, bottom: rows}
	s.cells = make([][]rune, rows)
	s.clear(0, rows)
	return s
}

func (s *screen) clear(from, to int) {
	for y := from; y < to; y++ {
		s.cells[y] = blank(s.cols)
	}
}

func blank(n int) []rune {
	line := make([]rune, n)
	for i := range line {
		line[i] = ' '
	}
	return line
}

// String returns the lines, without the spaces at their ends.
func (s *screen) String() string {
	var b strings.Builder
	for _, line := range s.cells {
		b.WriteString(strings.TrimRight(string(line), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// write processes output. A chunk may end within an escape sequence or a character.
func (s *screen) write(p []byte) {
	p = append(s.pending, p...)
	for len(p) > 0 {
		n := s.step(p)
		if n == 0 {
			break
		}
		p = p[n:]
	}
	s.pending = append([]byte(nil), p...)
}

// step executes the character or sequence at the beginning of p and returns its length, or
// 0 if it is incomplete.
func (s *screen) step(p []byte) int {
	switch c := p[0]; {
	case c == 0x1b:
		return s.escape(p)
	case c == '\r':
		s.x = 0
	case c == '\n':
		s.down()
	case c == '\b':
		s.x = max(0, s.x-1)
	case c == '\t':
		s.x = min(s.cols-1, s.x/8*8+8)
	case c < ' ' || c == 0x7f:
	default:
		if !utf8.FullRune(p) {
			return 0
		}
		r, n := utf8.DecodeRune(p)
		s.put(r)
		return n
	}
	return 1
}

func (s *screen) put(r rune) {
	if s.x >= s.cols {
		s.x = 0
		s.down()
	}
	s.cells[s.y][s.x] = r
	s.x++
	s.last = r
}

// down executes a line feed. At the bottom of the scrolling region, it scrolls the region.
func (s *screen) down() {
	if s.y == s.bottom-1 {
		s.shift(s.top, -1)
		return
	}
	s.y = min(s.y+1, s.rows-1)
}

// setRegion limits scrolling to some lines, counted from 1.
func (s *screen) setRegion(first, last int) {
	if first < last && last <= s.rows {
		s.top, s.bottom = first-1, last
		s.move(0, 0)
	}
}

func (s *screen) escape(p []byte) int {
	if len(p) < 2 {
		return 0
	}
	switch p[1] {
	case '[':
		for i := 2; i < len(p); i++ {
			if p[i] >= 0x40 && p[i] <= 0x7e {
				s.control(string(p[2:i]), p[i])
				return i + 1
			}
		}
		return 0
	case ']', 'P', '_', '^', 'X': // a string for the terminal itself: titles, links, queries
		for i := 2; i < len(p); i++ {
			if p[i] == 0x07 {
				return i + 1
			}
			if p[i] == 0x1b && i+1 < len(p) {
				return i + 2
			}
		}
		return 0
	case '(', ')', '#', ' ':
		if len(p) < 3 {
			return 0
		}
		return 3
	case '7':
		s.savedX, s.savedY = s.x, s.y
	case '8':
		s.x, s.y = s.savedX, s.savedY
	case 'M': // up; at the top everything scrolls down
		if s.y == s.top {
			s.shift(s.top, 1)
		} else {
			s.y = max(0, s.y-1)
		}
	}
	return 2
}

// control executes a control sequence. It ignores sequences that only change the look, or
// query the terminal.
func (s *screen) control(params string, final byte) {
	if strings.HasPrefix(params, "?") && final == 'h' && strings.HasSuffix(params, "1049") {
		s.clear(0, s.rows)
	}
	if params != "" && (params[0] < '0' || params[0] > '9') && params[0] != ';' {
		return
	}
	n := numbers(params)
	at := func(i, missing int) int {
		if i < len(n) && n[i] > 0 {
			return n[i]
		}
		return missing
	}
	switch final {
	case 'A':
		s.move(s.x, s.y-at(0, 1))
	case 'B', 'e':
		s.move(s.x, s.y+at(0, 1))
	case 'C', 'a':
		s.move(s.x+at(0, 1), s.y)
	case 'D':
		s.move(s.x-at(0, 1), s.y)
	case 'E':
		s.move(0, s.y+at(0, 1))
	case 'F':
		s.move(0, s.y-at(0, 1))
	case 'G', '`':
		s.move(at(0, 1)-1, s.y)
	case 'd':
		s.move(s.x, at(0, 1)-1)
	case 'H', 'f':
		s.move(at(1, 1)-1, at(0, 1)-1)
	case 'J':
		s.eraseScreen(at(0, 0))
	case 'K':
		s.eraseLine(at(0, 0))
	case 'X':
		s.fill(s.x, s.x+at(0, 1))
	case 'L':
		s.shift(s.y, at(0, 1))
	case 'M':
		s.shift(s.y, -at(0, 1))
	case 'T':
		s.shift(s.top, at(0, 1))
	case 'S':
		s.shift(s.top, -at(0, 1))
	case 'r':
		s.setRegion(at(0, 1), at(1, s.rows))
	case 'b':
		for range at(0, 1) {
			s.put(s.last)
		}
	case '@':
		s.slide(at(0, 1))
	case 'P':
		s.slide(-at(0, 1))
	}
}

// shift moves the lines from top to the end of the scrolling region down by n, or up if n
// is negative.
func (s *screen) shift(top, n int) {
	if top >= s.bottom {
		return
	}
	lines := append([][]rune(nil), s.cells[top:s.bottom]...)
	for y := range lines {
		if from := y - n; from >= 0 && from < len(lines) {
			s.cells[top+y] = lines[from]
		} else {
			s.cells[top+y] = blank(s.cols)
		}
	}
}

// slide moves the characters at and after the cursor to the right by n, or to the left if n
// is negative.
func (s *screen) slide(n int) {
	if s.x >= s.cols {
		return
	}
	line := append([]rune(nil), s.cells[s.y][s.x:]...)
	for x := range line {
		if from := x - n; from >= 0 && from < len(line) {
			s.cells[s.y][s.x+x] = line[from]
		} else {
			s.cells[s.y][s.x+x] = ' '
		}
	}
}

func (s *screen) move(x, y int) {
	s.x = min(max(x, 0), s.cols-1)
	s.y = min(max(y, 0), s.rows-1)
}

func (s *screen) eraseScreen(how int) {
	switch how {
	case 0:
		s.eraseLine(0)
		s.clear(s.y+1, s.rows)
	case 1:
		s.eraseLine(1)
		s.clear(0, s.y)
	default:
		s.clear(0, s.rows)
	}
}

func (s *screen) eraseLine(how int) {
	switch how {
	case 0:
		s.fill(s.x, s.cols)
	case 1:
		s.fill(0, s.x+1)
	default:
		s.fill(0, s.cols)
	}
}

func (s *screen) fill(from, to int) {
	for x := from; x < min(to, s.cols); x++ {
		s.cells[s.y][x] = ' '
	}
}

func numbers(params string) []int {
	var all []int
	for field := range strings.SplitSeq(params, ";") {
		n, err := strconv.Atoi(field)
		if err != nil {
			n = 0
		}
		all = append(all, n)
	}
	return all
}
