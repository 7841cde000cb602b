// Package discovery serves /api and /apis: the groups, versions and resources of the server. The documents are made
// once for each state of the catalogue.
package discovery
