// Package logs reads and rotates container logs in the CRI format: a line is a time, a stream, a tag and text. The tag
// P means that the line continues in the next entry.
//
// Guarantees: a reader that follows sees every line once, also across rotations, and ends when the container has ended
// and everything is read. Rotation never cuts a line.
package logs
