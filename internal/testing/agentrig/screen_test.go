package agentrig

import (
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	for _, tt := range []struct{ name, out, want string }{
		{"text", "one\r\ntwo", "one\ntwo"},
		{"gap by moving", "a\x1b[3Cb", "a   b"},
		{"colours and modes", "\x1b[1;31mred\x1b[0m\x1b[?25l\x1b[>1u\x1b[?2026h!", "red!"},
		{"titles and links", "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bP1$r\x1b\\c", "abc"},
		{"overwrite", "abc\rX", "Xbc"},
		{"backspace and tab", "ab\bX\tY", "aX      Y"},
		{"up and erase line", "one\r\ntwo\r\n\x1b[1A\x1b[2Kthree", "one\nthree"},
		{"home and erase", "one\r\ntwo\x1b[H\x1b[0Jx", "x"},
		{"erase to the left", "abcd\x1b[2D\x1b[1Ke", "  ed"},
		{"absolute", "\x1b[2;3Hx\x1b[1Gy\x1b[1dz", " z\ny x"},
		{"save and restore", "a\x1b7bc\x1b8X", "aXc"},
		{"alternate screen", "old\x1b[?1049h\x1b[Hnew", "new"},
		{"wrap", "0123456789ab", "0123456789\nab"},
		{"scroll", "1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"},
		{"wide text", "❯ é", "❯ é"},
		{"erase characters", "abcd\x1b[1G\x1b[2X", "  cd"},
		{"out of bounds", "\x1b[99;99Hx\x1b[99A\x1b[99Dy", "y\n\n\n         x"},
		{"scroll some lines", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n5\x1b[r\x1b[4;2Hx", "1\n3\n5\n4x"},
		{"repeat a character", "-\x1b[3b", "----"},
		{"up with a scroll", "one\r\ntwo\x1bMx\x1bM\ry", "y\nonex\ntwo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole, split := newScreen(10, 4), newScreen(10, 4)
			whole.write([]byte(tt.out))
			for i := range len(tt.out) {
				split.write([]byte{tt.out[i]})
			}
			for _, s := range []*screen{whole, split} {
				if got := strings.TrimRight(s.String(), "\n"); got != tt.want {
					t.Errorf("shows %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestAnswered(t *testing.T) {
	const rest = "────\n❯ \n────\n  ? for shortcuts"
	for _, tt := range []struct {
		name, screen string
		want         bool
	}{
		{"over", "❯ say it\n● ok\n" + rest, true},
		{"wrapped", "❯ say\n  it\n● ok\n" + rest, true},
		{"scrolled away", "● ok\n" + rest, true},
		{"not sent yet", "❯ say it\n● ok\n────\n❯ say it\n────\n  ? for shortcuts", false},
		{"only the turn before", "❯ other\n● ok\n" + rest, false},
		{"sent, not answered", "❯ say it\n● ok\n❯ say it\n" + rest, false},
		{"still working", "❯ say it\n● ok\n" + rest + " · esc to interrupt", false},
	} {
		if got := answered(tt.screen, "say it", "ok"); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestInputLine(t *testing.T) {
	const box = "● hi\n❯ a new prompt\n────\n❯\u00a0%\n────\n  ? for shortcuts\n"
	for _, tt := range []struct {
		typed   string
		entered bool
	}{
		{"a new prompt", true},
		{"a new\n  prompt", true},
		{"[Pasted text #1 +9 lines]", true},
		{"a new", false},
		{"", false}, // the same prompt further up is not the input
	} {
		screen := strings.Replace(box, "%", tt.typed, 1)
		if got := strings.TrimSpace(inputLine(screen)); got != tt.typed {
			t.Errorf("input line %q, want %q", got, tt.typed)
		}
		if got := entered(screen, "a new prompt"); got != tt.entered {
			t.Errorf("with %q typed: entered %v, want %v", tt.typed, got, tt.entered)
		}
	}
}
