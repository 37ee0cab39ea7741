package tui

import "charm.land/bubbles/v2/textarea"

// history has the lines that the user typed before, for the arrow keys.
type history struct {
	lines []string
	at    int // distance from the line being typed
	draft string
}

func (p *history) add(text string) {
	if n := len(p.lines); n == 0 || p.lines[n-1] != text {
		p.lines = append(p.lines, text)
	}
	p.at, p.draft = 0, ""
}

// move returns the previous or the next line. It returns false inside a text of several
// lines, where the keys move the cursor.
func (p *history) move(back bool, input textarea.Model) (string, bool) {
	switch {
	case back && input.Line() > 0, !back && input.Line() < input.LineCount()-1:
		return "", false
	case back && p.at < len(p.lines):
		if p.at == 0 {
			p.draft = input.Value()
		}
		p.at++
	case !back && p.at > 0:
		p.at--
	default:
		return "", false
	}
	if p.at == 0 {
		return p.draft, true
	}
	return p.lines[len(p.lines)-p.at], true
}
