// Package parallel decides how many tests of a package run at the same time.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// Double sets -parallel, unless the user did, to twice the number of cores. It is for packages whose tests wait half of
// the time: for the timers of agents, or for a delay of the product. A TestMain calls it. It parses the flags of the test.
func Double() {
	if !flag.Parsed() {
		flag.Parse()
	}
	cores := runtime.GOMAXPROCS(0)
	f := flag.Lookup("test.parallel")
	if f.Value.String() != strconv.Itoa(cores) {
		return
	}
	if err := f.Value.Set(strconv.Itoa(2 * cores)); err != nil {
		panic(err)
	}
}
