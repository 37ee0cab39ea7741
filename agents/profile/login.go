package profile

// Login describes the file in which an agent keeps its logins.
type Login struct {
	File  string // its name in the agent's directory of data
	Parts []LoginPart
}

// LoginPart is the unit that a merge copies as a whole from one of two files, so that it never mixes
// tokens of two accounts.
type LoginPart struct {
	Parent string // the key of the object that has the login; "" is the document
	// Keys are the members of the object that belong to the login. If there are none, each member
	// is a login.
	Keys []string
	// Expiry lists the places of the times that decide between two logins. The first time that
	// both logins have, with different values, decides.
	Expiry []Expiry
}

// Expiry is a place in the object of a login with keys, or in the login if it is one member.
type Expiry struct {
	Path []string
	Form Form
}

// Form is the format of a time in a file.
type Form int

const (
	Number Form = iota // a number of seconds or milliseconds
	JWT                // a JSON Web Token, with the expiry in seconds
	Date               // RFC 3339
)
