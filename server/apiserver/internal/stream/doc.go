// Package stream writes the events of a watch: as JSON lines, as protobuf frames, or as messages of a WebSocket. Between events a stream
// holds no buffer.
package stream
