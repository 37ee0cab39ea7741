package ownership

import "testing"

func TestNaming(t *testing.T) {
	const text = "sed -i s/a/b/ two/main.go; rm -r gone/ && cat /root/abs.go ./here.go\n/root/dir"
	for path, want := range map[string]bool{
		"two/main.go": true, "main.go": false, "one/main.go": false, "abs.go": true, "here.go": true,
		"gone/x/y": true, "dir/z": true, "on": false, "e.go": false, "two": false,
	} {
		if mentions(text, "/root", path) != want {
			t.Errorf("%s: named %v", path, !want)
		}
	}
}
