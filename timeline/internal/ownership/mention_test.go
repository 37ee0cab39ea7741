package ownership

import (
	"slices"
	"testing"
)

func TestNaming(t *testing.T) {
	const text = "sed -i s/a/b/ two/main.go; rm -r gone/ && cat /root/abs.go ./here.go\n/root/dir"
	x := newIndex([]Call{{text: text}}, "/root")
	for path, want := range map[string]bool{
		"two/main.go": true, "main.go": false, "one/main.go": false, "abs.go": true, "here.go": true,
		"gone/x/y": true, "dir/z": true, "on": false, "e.go": false, "two": false,
	} {
		if got := len(x.naming(path)) > 0; got != want {
			t.Errorf("%s: named %v", path, !want)
		}
	}
}

// TestMention tells a path in the text of a call from a directory above it.
func TestMention(t *testing.T) {
	x := newIndex([]Call{{text: "ls src"}, {text: "cat src/a"}, {text: "diff src src/a"}, {text: "make"}}, "/root")
	want := []mention{{0, true}, {1, false}, {2, false}}
	if got := x.naming("src/a"); !slices.Equal(got, want) {
		t.Errorf("the calls are %v, want %v", got, want)
	}
}
