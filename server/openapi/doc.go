// Package openapi describes the API in the words of OpenAPI: version 3, one document a group version, and version 2, one
// document of everything. The schemas are made of the Go types of the kinds, their descriptions of what the types say of
// themselves.
//
// What is guaranteed:
//
//   - Nothing is made before somebody asks, and nothing of size is kept: of a document that was asked for its compressed
//     bytes stay for some minutes after it was last used, of the others a hash.
//   - A document is written as it is made, one schema and one path at a time, so that making the largest one does not need
//     much more memory than its compressed bytes.
//   - The same kinds give the same bytes, and so the same hash, in each process of the same build. The index of version 3
//     names documents by their hash, so that clients may keep them for ever.
//   - Kinds that come and go are seen by the next request; documents of groups that they do not belong to stay as they are.
package openapi
