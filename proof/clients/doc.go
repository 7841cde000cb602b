// Package clients tests the server from outside, with the clients that people use. It has only tests.
package clients
