// Package secret finds text that looks like a credential, before it leaves the machine
// in an archive or a page.
//
// A [Scanner] holds rules (rules.txt) and the secret values of the process's environment.
// [Scanner.Start] begins the scan of one file: the caller writes the file's bytes, and
// [Scan.Close] returns the findings. A scan needs less than a megabyte of memory, however
// large the file is.
//
// # What is searched
//
// The bytes as they are, and three decoded forms of them, because half of the secrets in
// a transcript are inside JSON strings, where quotes and line ends are escaped:
//
//   - every JSON string that contains an escape, decoded, and the strings inside it, up to
//     three levels deep. The syntax around a string does not matter, so this also finds
//     strings in source code and in damaged JSON;
//   - every run of 40 or more base64 characters that decodes to text, once.
//
// In files with a NUL byte in their first 8 KiB only the bytes as they are.
//
// # What is found
//
// One automaton reads each byte once and looks for all keywords of all rules. A rule's
// regular expression runs only in a window at its keyword. Values that are obviously
// placeholders ("your-key", "xxxx", "${TOKEN}", "...EXAMPLE") are not reported. Nothing
// that a file contains can turn a rule off.
//
// A scanner cannot find every secret: a password in prose has no form. The package is the
// last check before a file is given away and not a proof that it is harmless.
//
// A [Finding] never contains the secret. It has a masked sample and a fingerprint, with
// which a user can allow this one value.
package secret
