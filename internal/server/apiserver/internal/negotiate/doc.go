// Package negotiate chooses the format of an answer from the Accept header.
package negotiate
