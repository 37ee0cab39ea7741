// Package secret finds text that looks like a credential, before it leaves the machine
// in an archive or a page.
//
// A [Scanner] holds rules (rules/) and the secret values of the process's environment.
// [Scanner.Start] begins the scan of one file: the caller writes the file's bytes, and
// [Scan.Close] returns the findings. A scan needs less than a megabyte of memory for most files,
// and at most two for one with text that is encoded several times, however large it is.
//
// # What is searched
//
// A scan searches the bytes of the file, and text that is encoded in them, up to three levels deep. Half
// of the secrets in a transcript are inside JSON strings, where quotes and line ends are escaped. It
// decodes:
//
//   - every JSON string that contains an escape. The syntax around a string does not matter,
//     so this also finds strings in source code and in damaged JSON;
//   - every run of 40 or more base64 characters that decodes to text.
//
// A file whose beginning is UTF-16 is also searched as UTF-16. In any other file with a NUL byte in
// its first 8 KiB nothing is decoded.
//
// # What is found
//
// One automaton reads each byte once and looks for all keywords of all rules. A rule's
// regular expression runs only in a window at its keyword. Some rules describe the form of a
// value. Others describe the name that it is assigned to, in the forms of assignments of programs,
// environments, YAML, XML and JSON. Values that are obviously
// placeholders ("your-key", "xxxx", "${TOKEN}", "...EXAMPLE") are not reported. Nothing
// that a file contains can turn a rule off.
//
// A scanner cannot find every secret: a password in prose has no form. The package is the
// last check before a file is given away. It does not prove that the file is harmless.
//
// A [Finding] never contains the secret. It contains a masked sample, and a fingerprint with
// which a user can allow this one value.
package secret
