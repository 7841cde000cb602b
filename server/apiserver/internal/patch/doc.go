// Package patch applies JSON patches, merge patches and strategic merge patches to objects. The short way through the fields that a patch
// names and the long way through the whole object come to the same; a random test compares them.
package patch
