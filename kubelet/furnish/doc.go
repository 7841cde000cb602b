// Package furnish gives pods what a node and the API server have for them: volumes, environment, names and messages.
//
// What is guaranteed: files of config maps, secrets, projections and tokens are replaced all at once, so that a reader
// sees the old set or the new one; what is mandatory and missing keeps a pod from starting, and never takes from a
// running pod what it has; config maps and secrets are watched as long as a pod uses them, and no others; tokens are
// renewed when four fifths of their life are over; nothing of a pod is left on disk after Release.
package furnish
