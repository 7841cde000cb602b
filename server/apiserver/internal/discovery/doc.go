// Package discovery serves /api and /apis: which groups, versions and resources there are. The documents are made once for each state of
// the catalogue.
package discovery
