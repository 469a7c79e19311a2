// hnswlib answers the commands of the benchmark on standard input, one line each:
//
//   open FILE COUNT DIMENSIONS QUERIES QUERYCOUNT ip|l2    rows of float32; ip expects unit vectors
//   build M EFCONSTRUCTION                                 -> seconds of CPU, with one thread
//   search EF K                                            -> seconds of CPU for all queries, then the K labels of each
#include <hnswlib/hnswlib.h>

#include <time.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

static double cpu() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static std::vector<float> read(const std::string &path, size_t n) {
  std::vector<float> v(n);
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(v.data()), n * sizeof(float));
  return v;
}

int main() {
  std::string command;
  size_t count = 0, dimensions = 0, asked = 0;
  std::vector<float> base, queries;
  std::unique_ptr<hnswlib::SpaceInterface<float>> space;
  std::unique_ptr<hnswlib::HierarchicalNSW<float>> index;
  while (std::cin >> command) {
    if (command == "open") {
      std::string file, query_file, metric;
      std::cin >> file >> count >> dimensions >> query_file >> asked >> metric;
      base = read(file, count * dimensions);
      queries = read(query_file, asked * dimensions);
      if (metric == "ip") space.reset(new hnswlib::InnerProductSpace(dimensions));
      else space.reset(new hnswlib::L2Space(dimensions));
      std::cout << "opened" << std::endl;
    } else if (command == "build") {
      size_t m, ef;
      std::cin >> m >> ef;
      double start = cpu();
      index.reset(new hnswlib::HierarchicalNSW<float>(space.get(), count, m, ef));
      for (size_t i = 0; i < count; i++) index->addPoint(&base[i * dimensions], i);
      std::cout << cpu() - start << std::endl;
    } else if (command == "search") {
      size_t ef, k;
      std::cin >> ef >> k;
      index->setEf(ef);
      std::vector<std::vector<hnswlib::labeltype>> labels(asked);
      double start = cpu();
      for (size_t i = 0; i < asked; i++) {
        auto found = index->searchKnn(&queries[i * dimensions], k);
        for (; !found.empty(); found.pop()) labels[i].push_back(found.top().second);
      }
      std::cout << cpu() - start;
      for (auto &row : labels)
        for (size_t j = 0; j < k; j++) std::cout << ' ' << (j < row.size() ? static_cast<long>(row[j]) : -1);
      std::cout << std::endl;
    }
  }
}
