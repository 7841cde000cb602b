// Package systems checks the types of all packages, tests included, for each system that Millrace is released for. It
// compiles nothing: the packages of this module are checked from their source, and of all others only the declarations,
// which takes a fifth of the time of one build.
package systems
