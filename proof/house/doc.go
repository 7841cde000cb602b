// Package house has the rules of the house as tests: every package says what it is, imports between rooms are those
// that are listed, and what may not be imported is not.
package house
