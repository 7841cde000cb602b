// Package openapi serves OpenAPI documents: in version 3 one for each group version, in version 2 one for the whole
// API. The schemas are made from the kinds' Go types, the descriptions from the documentation of these types.
//
// Guarantees:
//
//   - Nothing is made before it is requested, and nothing large is kept: the compressed bytes of a document stay for
//     some minutes after its last use; of other documents only a hash is kept.
//   - A document is written while it is made, one schema and one path at a time, so that the largest one needs little
//     more memory than its compressed bytes.
//   - The same kinds give the same bytes and the same hash in every process of the same build. The index of version 3
//     names documents by their hash, so that clients may cache them for ever.
//   - The next request sees kinds that were added or removed; documents of other groups do not change.
package openapi
