package preamble

import (
	"encoding/json"
	"slices"
	"strings"
)

// asked reads an intent's body. What is not in the proxy's shape is a tool's
// input as a hook saw it.
func asked(body json.RawMessage) (title, kind string, input json.RawMessage, place string) {
	ms := members(body)
	observed := len(ms) > 0 && (get(ms, "title") != nil || get(ms, "kind") != nil)
	for _, m := range ms {
		observed = observed && slices.Contains([]string{"title", "kind", "input", "locations", "clipped"}, m.key)
	}
	if !observed {
		return "", "", body, ""
	}
	var places []struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(get(ms, "locations"), &places) == nil && len(places) > 0 {
		place = places[0].Path
	}
	return text(get(ms, "title")), text(get(ms, "kind")), get(ms, "input"), place
}

// divide splits a tool's input into what the call is about and the rest.
func divide(kind string, input json.RawMessage) (subject, rest string) {
	subjects := []string{"command", "cmd", "file_path", "notebook_path", "path", "abs_path", "filePath", "url", "uri"}
	asides := []string{"description", "timeout", "run_in_background"} // they change nothing in what is done
	ms := members(input)
	if actOf(kind) == actOf(other) || len(ms) == 0 {
		if s := text(input); s != "{}" {
			if len(ms) > 0 && clipped(input) == nil {
				s = string(input)
			}
			return "", detail(s)
		}
		return "", ""
	}
	about := ""
	for _, key := range subjects {
		if v := get(ms, key); v != nil {
			about, subject = key, command(v)
			break
		}
	}
	ms = slices.DeleteFunc(ms, func(m member) bool {
		return m.key == about || slices.Contains(asides, m.key)
	})
	var parts []string
	for _, m := range ms {
		s := detail(text(m.value))
		if len(ms) > 1 {
			s = line(plain(m.key, keepSubject), keepSubject) + ": " + s
		}
		parts = append(parts, s)
	}
	rest = clip(strings.Join(parts, "\n"), keepDetail)
	subject = strings.TrimSpace(plain(subject, keepDetail))
	if strings.Contains(subject, "\n") || len(subject) > keepSubject {
		rest = strings.TrimSpace(clip(subject+"\n"+rest, keepDetail)) // a line will not hold it
	}
	return subject, rest
}

// command is a command as one would type it: some tools are told the words of it,
// with the shell's own in front.
func command(v json.RawMessage) string {
	var words []string
	if json.Unmarshal(v, &words) != nil {
		return text(v)
	}
	if len(words) == 3 && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// outcome reads a result's body, as a hook or the proxy wrote it.
func outcome(body json.RawMessage) (state, string) {
	ms := members(body)
	answer, how := "", done
	switch status := text(get(ms, "status")); {
	case get(ms, "response") != nil || get(ms, "error") != nil && status == "":
		answer = text(get(ms, "response"))
		if e := get(ms, "error"); e != nil {
			answer, how = text(e), failed
		}
		if exit := text(get(ms, "exit")); exit != "" && exit != "0" {
			how = failed
		}
		if text(get(ms, "interrupt")) == "true" || text(get(members(get(ms, "response")), "interrupted")) == "true" {
			how = interrupted
		}
	case status == "pending" || status == "in_progress":
		how = begun
	case status != "":
		if answer = text(get(ms, "content")); strings.TrimSpace(answer) == "" {
			answer = text(get(ms, "output"))
		}
		how = ended(status, get(ms, "output"))
	case len(ms) > 0 && known(ms):
	default:
		answer = text(body)
	}
	return how, detail(unfence(answer))
}

// known reports whether a result holds nothing but what hooks say of every call.
func known(ms []member) bool {
	return !slices.ContainsFunc(ms, func(m member) bool {
		return !slices.Contains([]string{"exit", "interrupt", "duration_ms", "agent"}, m.key)
	})
}

// ended reads the status of a call, and the exit status some agents add to it.
func ended(status string, output json.RawMessage) state {
	switch status {
	case "failed":
		return failed
	case "cancelled", "canceled":
		return interrupted
	}
	for _, key := range []string{"exit_code", "exitCode"} {
		if exit := text(get(members(output), key)); exit != "" && exit != "0" {
			return failed
		}
	}
	return done
}

// unfence takes off the code fence in which some agents show a command's output.
func unfence(s string) string {
	s = strings.TrimSpace(s)
	first, rest, more := strings.Cut(s, "\n")
	if body, fenced := strings.CutSuffix(rest, "```"); more && fenced && strings.HasPrefix(first, "```") && !strings.Contains(body, "```") {
		return body
	}
	return s
}
