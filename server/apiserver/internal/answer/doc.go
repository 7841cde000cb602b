// Package answer writes answers: objects, lists and tables in the version, format and shape that a client asked for. Forms that the
// watch cache shares are used wherever they fit; nothing is encoded twice for the same client.
package answer
