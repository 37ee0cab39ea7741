package agentrig

import "strings"

// The marks on the agent's screen. They may change with the agent's version.
const (
	promptSign = "❯" // before a prompt, the input line and the marked line of a list
	answerSign = "● "
	pasted     = "[Pasted text" // instead of a very long prompt
)

// ready reports whether the agent accepts a prompt.
func ready(screen string) bool {
	return strings.Contains(screen, "shift+tab to cycle") || strings.Contains(screen, "? for shortcuts")
}

// working reports whether a turn is under way.
func working(screen string) bool { return strings.Contains(screen, "esc to interrupt") }

// answered reports whether prompt was sent, the screen shows answer below it, and the turn
// is over.
func answered(screen, prompt, answer string) bool {
	if working(screen) || entered(screen, prompt) {
		return false
	}
	sent, below := newestTurn(screen)
	if sent != "" { // if not, the prompt and everything above it have scrolled away
		start := []rune(squeeze(prompt))
		start = start[:min(len(start), 20)]
		if all := squeeze(sent + below); !strings.HasPrefix(all, string(start)) && !strings.HasPrefix(all, squeeze(pasted)) {
			return false
		}
	}
	return strings.Contains(below, answerSign+answer)
}

// newestTurn returns the first line of the newest prompt that was sent, and the text below
// it. If no prompt is visible, below is the whole screen.
func newestTurn(screen string) (prompt, below string) {
	above := screen[:max(0, strings.LastIndex(screen, promptSign))]
	i := strings.LastIndex(above, promptSign)
	if i < 0 {
		return "", above
	}
	prompt, below, _ = strings.Cut(above[i+len(promptSign):], "\n")
	return prompt, below
}

// filled reports whether the input line has text.
func filled(screen string) bool { return strings.TrimSpace(inputLine(screen)) != "" }

// entered reports whether the input line has the end of text: a long text is wrapped, and
// its beginning may not be visible. For a very long text, the line shows only a mark.
func entered(screen, text string) bool {
	typed := inputLine(screen)
	tail := []rune(squeeze(text))
	if len(tail) > 30 {
		tail = tail[len(tail)-30:]
	}
	return strings.Contains(squeeze(typed), string(tail)) || strings.Contains(typed, pasted)
}

// inputLine returns the text between the last prompt sign and the rule below it.
func inputLine(screen string) string {
	i := strings.LastIndex(screen, promptSign)
	if i < 0 {
		return ""
	}
	typed := screen[i+len(promptSign):]
	if end := strings.Index(typed, "\n──"); end >= 0 {
		typed = typed[:end]
	}
	return strings.ReplaceAll(typed, "\u00a0", " ")
}

// marked returns the line of a list that begins with the agent's prompt sign.
func marked(screen string) string {
	i := strings.LastIndex(screen, promptSign)
	if i < 0 {
		return ""
	}
	line, _, _ := strings.Cut(screen[i:], "\n")
	return line
}

// squeeze removes all space, because the screen wraps lines at any place.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
