// Package etcd tests a cluster whose etcd fails. It has only tests.
package etcd
