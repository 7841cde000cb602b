// Package answer writes responses: objects, lists and tables in the version, format and shape that the request asks
// for. Wherever possible they are assembled from forms that the watch cache shares.
package answer
