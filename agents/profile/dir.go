package profile

import "path/filepath"

// UserHome is the variable with the user's home.
const UserHome = "HOME"

// Dir is a directory that the environment names, as its places in order of precedence. The last place is below the
// user's home.
type Dir []Place

// Place is a directory below the one that a variable names. Below is "" for that directory itself.
type Place struct{ Variable, Below string }

// Path returns the path of the directory, or "" if no variable is set.
func (d Dir) Path(getenv func(string) string) string {
	for _, p := range d {
		if dir := getenv(p.Variable); dir != "" {
			return filepath.Join(dir, p.Below)
		}
	}
	return ""
}

// InHome returns the path of the directory relative to a home, in which it is if no other variable is set.
func (d Dir) InHome() string {
	if len(d) == 0 {
		return ""
	}
	return filepath.FromSlash(d[len(d)-1].Below)
}
