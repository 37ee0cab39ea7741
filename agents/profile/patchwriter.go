package profile

import "strings"

// PatchWriter writes a patch in the form that [PatchHunks] reads. Names of files must have no line breaks.
type PatchWriter struct{ text strings.Builder }

// Add adds a new file.
func (w *PatchWriter) Add(name, content string) {
	w.text.WriteString(patchAdd + name + "\n")
	for line := range strings.Lines(content) {
		w.text.WriteString("+" + line)
	}
	if content != "" && !strings.HasSuffix(content, "\n") {
		w.text.WriteString("\n" + noNewline)
	}
}

// noNewline follows a line without a line break. A patch of a model has no form for it, so such a file has no hunks.
const noNewline = "\\ No newline at end of file\n"

// Delete deletes a file.
func (w *PatchWriter) Delete(name string) { w.text.WriteString(patchDelete + name + "\n") }

// Update changes a file. moved is its new name, or "". diff has hunks in the unified format.
func (w *PatchWriter) Update(name, moved, diff string) {
	w.text.WriteString(patchUpdate + name + "\n")
	if moved != "" {
		w.text.WriteString(patchMove + moved + "\n")
	}
	w.text.WriteString(diff)
	if diff != "" && !strings.HasSuffix(diff, "\n") {
		w.text.WriteString("\n")
	}
}

// String returns the patch.
func (w *PatchWriter) String() string { return PatchBegin + w.text.String() + patchEnd + "\n" }
