// Package patch applies JSON patches, merge patches and strategic merge patches to objects. There is a fast path,
// through the fields that a patch names, and a general path through the whole object. Both give the same result; a
// random test compares them.
package patch
