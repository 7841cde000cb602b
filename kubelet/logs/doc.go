// Package logs reads and rotates the logs of containers, in the format of CRI: a line is a time, a stream, a tag and
// text, and a tag of P says that the line goes on in the next.
//
// What is guaranteed: a reader that follows sees every line once, through rotations too, and ends when the container
// has ended and all is read; rotation never cuts a line.
package logs
