// Package stream writes the events of a watch: as lines of JSON, as protobuf frames, or as WebSocket messages. Between
// events a stream holds no buffer.
package stream
