package search

// Field is the part of a checkpoint or of a turn in which a text was found.
type Field uint8

// The fields. Segments contain the numbers.
const (
	Prompt  Field = iota + 1
	Answer        // what the agent wrote
	Command       // the input of a call: the command as typed, the path, the other values
	Output        // the result of a call
	Added         // lines that a file has since this checkpoint
	Removed       // lines that a file no longer has
	Created       // paths, by the action of the checkpoint
	Changed
	Deleted
	Renamed
	fieldEnd
)

// fieldTraits has what search knows about a field.
var fieldTraits = [fieldEnd]struct {
	name   string
	weight float64 // of a hit, relative to the others
	length float64 // the usual number of terms, with which BM25 compares the length of a document
	// hasPositions is set if the index has the positions of the terms, and the words of several parts as further terms.
	// Output is most of the text, so that would make the index too large. A phrase in it is checked in the text itself.
	hasPositions bool
}{
	Prompt: {"prompt", 1.4, 60, true}, Answer: {"answer", 1, 150, true}, Command: {"tool", 1, 80, true}, Output: {"output", 0.5, 800, false},
	Added: {"added", 1, 400, false}, Removed: {"removed", 1, 400, false},
	Created: {"created", 1, 30, true}, Changed: {"changed", 1, 30, true}, Deleted: {"deleted", 1, 30, true}, Renamed: {"renamed", 1, 30, true},
}

// String returns the name of the field in results.
func (f Field) String() string { return fieldTraits[f].name }

// FieldNamed returns the field with a name, or 0.
func FieldNamed(name string) Field {
	for f := Prompt; f < fieldEnd; f++ {
		if fieldTraits[f].name == name {
			return f
		}
	}
	return 0
}

// Conversation returns the fields that a search reads if its caller names none.
func Conversation() []Field { return []Field{Prompt, Answer, Command} }
