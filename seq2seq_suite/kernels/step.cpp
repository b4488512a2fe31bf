// A step of a Transformer decoder for n rows, and the likeliest symbols behind it; `compiled.py` calls it.
//
// A panel of P rows goes through all layers alone, so that it stays in a core's cache and threads need not wait for
// each other: x[i * P + row], so that one number of a weight meets all rows. Of a few rows each is a line of its own,
// P = 1.
// Letters: k and v, width of a product's input and output. All tensors are float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __AVX512F__
constexpr int LANES = 16, FEW = 5;
#else
constexpr int LANES = 8, FEW = 3;
#endif
// FEW: no more rows than these are done line by line, with one look at a weight; registers hold their sums.
constexpr int64_t LARGE = 1 << 19;     // numbers of a weight that threads share if there is one panel
constexpr int64_t END = 2;             // the symbol, as in `types.py`
constexpr int64_t BLOCK = 64;          // symbols whose largest score is compared with the best so far
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
using Floats = std::vector<float>;

struct Linear { const float *weight, *bias; };  // (v,k); (v) or null
struct Norm { const float *gain, *bias; };      // without bias: RMSNorm; without gain: none
struct Layer {
    Linear own, own_output, query, cross_output, inner, outer;
    Norm own_norm, cross_norm, network_norm;
    const float* memory;  // (sentences,source,2,width): keys and values; null: no cross-attention
};
struct Decoder {
    const Layer* layers;
    Norm last;
    Linear output;
    const float* embedding;  // (symbols,width)
    const uint8_t* visible;  // (sentences,source)
    const int64_t* never;    // symbols that are never predicted
    int64_t nevers, symbols, depth, width, heads, inner, source, pre, activation, threads;
    float epsilon, scale;  // of norms; of embedded symbols
};

static inline float exponential(float x) {  // of x <= 0, without a call, so that loops over it are vectorised
    x = std::max(x, -87.0f);
    const int power = static_cast<int>(x * 1.44269504f - 0.5f);
    const float r = x - power * 0.69314718f;
    const float series = 1 + r * (1 + r * (0.5f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r / 720)))));
    const int bits = (power + 127) << 23;
    float scale;
    std::memcpy(&scale, &bits, 4);
    return scale * series;
}

static inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

template <int N>
static inline float total(const float* lanes) {
    if constexpr (N == 1) {
        return *lanes;
    } else {
        typedef float Half __attribute__((vector_size(2 * N), aligned(4), may_alias));
        const Half half = *reinterpret_cast<const Half*>(lanes) + *reinterpret_cast<const Half*>(lanes + N / 2);
        return total<N / 2>(reinterpret_cast<const float*>(&half));
    }
}

static inline float dot(const float* a, const float* b, int64_t size) {
    float sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
}

// y = W x + b of P rows side by side
template <int P>
static void product(float* y, const float* x, Linear linear, int64_t k, int64_t v, int64_t threads) {
    constexpr int OUTS = 8, PARTS = P / LANES;
#pragma omp parallel for num_threads(threads) if (threads > 1 && k * v >= LARGE)
    for (int64_t out = 0; out < v; out += OUTS) {
        const float* w[OUTS];
        for (int64_t o = 0; o < OUTS; ++o) w[o] = linear.weight + std::min(out + o, v - 1) * k;
        Lanes sums[OUTS][PARTS] = {};
        for (int64_t i = 0; i < k; ++i)
            for (int part = 0; part < PARTS; ++part)
                for (int o = 0; o < OUTS; ++o) sums[o][part] += load(x + i * P + part * LANES) * w[o][i];
        for (int64_t o = 0; o < std::min<int64_t>(OUTS, v - out); ++o)
            for (int part = 0; part < PARTS; ++part)
                *reinterpret_cast<Lanes*>(y + (out + o) * P + part * LANES)
                    = sums[o][part] + (linear.bias ? linear.bias[out + o] : 0);
    }
}

// The same of rows (rows,k) one behind the other, ROWS of them at a time.
template <int ROWS>
static void product_of_rows(float* y, const float* x, int64_t rows, Linear linear, int64_t k, int64_t v,
                            int64_t threads) {
    constexpr int OUTS = 4;
#pragma omp parallel for num_threads(threads) if (threads > 1 && k * v >= LARGE)
    for (int64_t out = 0; out < v; out += OUTS) {
        const float *w[OUTS], *in[ROWS];
        for (int64_t o = 0; o < OUTS; ++o) w[o] = linear.weight + std::min(out + o, v - 1) * k;
        for (int64_t first = 0; first < rows; first += ROWS) {
            for (int64_t row = 0; row < ROWS; ++row) in[row] = x + std::min(first + row, rows - 1) * k;
            Lanes sums[ROWS][OUTS] = {};
            int64_t i = 0;
            for (; i + LANES <= k; i += LANES)
                for (int row = 0; row < ROWS; ++row)
                    for (int o = 0; o < OUTS; ++o) sums[row][o] += load(in[row] + i) * load(w[o] + i);
            float found[ROWS][OUTS];
            for (int row = 0; row < ROWS; ++row)
                for (int o = 0; o < OUTS; ++o) found[row][o] = total<LANES>(reinterpret_cast<float*>(&sums[row][o]));
            for (int64_t row = 0; row < std::min<int64_t>(ROWS, rows - first); ++row)
                for (int64_t o = 0; o < std::min<int64_t>(OUTS, v - out); ++o)
                    y[(first + row) * v + out + o] = found[row][o] + dot(in[row] + i, w[o] + i, k - i)
                                                   + (linear.bias ? linear.bias[out + o] : 0);
        }
    }
}

template <int P>
static void normalise(float* y, const float* x, Norm norm, int64_t width, float epsilon) {
    float mean[P] = {}, scale[P] = {};
    for (int64_t i = 0; norm.bias && i < width; ++i)
        for (int row = 0; row < P; ++row) mean[row] += x[i * P + row];
    for (int row = 0; row < P; ++row) mean[row] /= width;
    for (int64_t i = 0; i < width; ++i)
        for (int row = 0; row < P; ++row) scale[row] += (x[i * P + row] - mean[row]) * (x[i * P + row] - mean[row]);
    for (int row = 0; row < P; ++row) scale[row] = 1 / std::sqrt(scale[row] / width + epsilon);
    for (int64_t i = 0; i < width; ++i)
        for (int row = 0; row < P; ++row)
            y[i * P + row] = (x[i * P + row] - mean[row]) * scale[row] * norm.gain[i] + (norm.bias ? norm.bias[i] : 0);
}

// y = softmax(q k / sqrt(E)) v of one row; each of `at` holds a position's keys (width), behind them its values.
static void attend(float* y, const float* query, const std::vector<const float*>& at, int64_t width, int64_t heads,
                   Floats& weights) {
    const int64_t size = width / heads, count = at.size();
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    weights.resize(count);
    for (int64_t head = 0; head < width; head += size) {
        float most = -INFINITY, total = 0;
        for (int64_t s = 0; s < count; ++s)
            most = std::max(most, weights[s] = scale * dot(query + head, at[s] + head, size));
        for (int64_t s = 0; s < count; ++s) total += weights[s] = exponential(weights[s] - most);
        int64_t i = head;
        for (; i + LANES <= head + size; i += LANES) {
            Lanes sum = {};
            for (int64_t s = 0; s < count; ++s) sum += weights[s] * load(at[s] + width + i);
            *reinterpret_cast<Lanes*>(y + i) = count ? sum / total : sum;
        }
        for (; i < head + size; ++i) {
            y[i] = 0;
            for (int64_t s = 0; s < count; ++s) y[i] += weights[s] * at[s][width + i] / total;
        }
    }
}

// A head's features (size), each pair (i, i + size / 2) turned by `RotaryPositions.factors`.
static void rotate(float* x, const float* turn, int64_t size) {
    for (int64_t i = 0, half = size / 2; i < half; ++i) {
        const float first = x[i], second = x[half + i];
        x[i] = first * turn[i] + second * turn[size + i];
        x[half + i] = second * turn[half + i] + first * turn[size + half + i];
    }
}

// The likeliest symbols of each row by logits z, which are overwritten, or END where only that is left:
// log-probabilities and symbols (rows,count).
template <int P>
static void choose(float* z, const Decoder& decoder, int64_t rows, const uint8_t* only_end, float* gains,
                   int64_t* symbols, int64_t count) {
    float most[P], total[P] = {};
    for (int64_t i = 0; i < decoder.nevers; ++i) std::fill_n(z + decoder.never[i] * P, P, -INFINITY);
    std::fill_n(gains, rows * count, -INFINITY);
    std::fill_n(symbols, rows * count, 0);
    for (int64_t first = 0; first < decoder.symbols; first += BLOCK) {
        const int64_t end = std::min(decoder.symbols, first + BLOCK);
        std::fill_n(most, P, -INFINITY);
        for (int64_t i = first; i < end; ++i)
            for (int row = 0; row < P; ++row) most[row] = std::max(most[row], z[i * P + row]);
        for (int64_t row = 0; row < rows; ++row) {
            float* best = gains + row * count;
            int64_t* chosen = symbols + row * count;
            for (int64_t i = first; most[row] > best[count - 1] && i < end; ++i) {
                const float score = z[i * P + row];
                if (score <= best[count - 1]) continue;
                int64_t place = count - 1;
                for (; place && score > best[place - 1]; --place)
                    best[place] = best[place - 1], chosen[place] = chosen[place - 1];
                best[place] = score, chosen[place] = i;
            }
        }
    }
    for (int64_t row = 0; row < P; ++row) most[row] = row < rows ? gains[row * count] : INFINITY;
    for (int64_t i = 0; i < decoder.symbols; ++i)
        for (int row = 0; row < P; ++row) total[row] += exponential(z[i * P + row] - most[row]);
    for (int64_t row = 0; row < rows; ++row) {
        if (only_end && only_end[row]) {
            std::fill_n(gains + row * count, count, -INFINITY);
            gains[row * count] = z[END * P + row], symbols[row * count] = END;
        }
        for (int64_t i = 0; i < count; ++i) gains[row * count + i] -= most[row] + std::log(total[row]);
    }
}

struct Step {
    const Decoder& decoder;
    float* x;                       // (n,width) the input and the hidden states; null:
    const int64_t* previous;        // (n) the symbols that are embedded
    const float* position;          // (width) what is added to them, or null
    const float* turn;              // (2,head width) rotary positions' factors of features and their partners, or null
    const float* const* blocks;     // of `past` positions keys and values (rows,depth,2,width)
    const int64_t* const* origins;  // rows of a block behind which those of the next, or of this step, come; or null
    int64_t past;
    float* block;                   // (n,depth,2,width) of this position, to be filled
    const int64_t* sentences;       // (n)
    const uint8_t* only_end;        // (n), or null
    float* gains;                   // (n,count) and `symbols`: the likeliest ones, instead of hidden states, if count
    int64_t* symbols;
    int64_t count;

    template <int P>
    void panel(int64_t first, int64_t rows, int64_t threads) const {
        const auto [layers, last, output, embedding, visible, never, nevers, vocabulary, depth, width, heads, inner,
                    source, pre, activation, unused, epsilon, scale] = decoder;
        const int64_t wide = std::max(3 * width, activation == 2 ? 2 * inner : inner);
        static thread_local Floats space, weights, logits;
        static thread_local std::vector<const float*> at, lies;
        const int64_t lines = P == 1 ? rows : 1, columns = lines * P;
        const auto place = [&](int64_t i, int64_t row, int64_t size) { return P == 1 ? row * size + i : i * P + row; };
        space.resize((2 * width + wide + std::max(width, inner)) * columns + 4 * width);
        float *h = space.data(), *in = h + width * columns, *y = in + width * columns, *z = y + wide * columns;
        float *query = z + std::max(width, inner) * columns, *found = query + 3 * width;
        lies.resize(past * rows);  // where a row's keys and values lie
        std::fill_n(h, width * columns, 0.0f);
        for (int64_t row = 0; row < rows; ++row) {
            const float* from = x ? x + (first + row) * width : embedding + previous[first + row] * width;
            for (int64_t i = 0; i < width; ++i)
                h[place(i, row, width)] = x ? from[i] : from[i] * scale + (position ? position[i] : 0);
            for (int64_t s = past, origin = first + row; s--;) {
                origin = origins[s] ? origins[s][origin] : origin;
                lies[row * past + s] = blocks[s] + origin * depth * 2 * width;
            }
        }

        const auto normalised = [&](float* to, Norm norm) {
            for (int64_t line = 0; line < lines; ++line)
                normalise<P>(to + line * width, h + line * width, norm, width, epsilon);
            return to;
        };
        const auto times = [&](float* to, const float* from, Linear linear, int64_t k, int64_t v) {
            if constexpr (P > 1) product<P>(to, from, linear, k, v, threads);
            else if (rows == 1) product_of_rows<1>(to, from, rows, linear, k, v, threads);
            else product_of_rows<FEW>(to, from, rows, linear, k, v, threads);
        };
        for (int64_t number = 0; number < depth; ++number) {
            const Layer& layer = layers[number];
            const auto before = [&](Norm norm) { return pre ? normalised(in, norm) : h; };
            const auto after = [&](Norm norm) {
                for (int64_t i = 0; i < width * columns; ++i) h[i] += y[i];
                if (!pre) normalised(h, norm);
            };
            const auto attended = [&](int64_t row) {  // of the query, to a row of z
                attend(found, query, at, width, heads, weights);
                for (int64_t i = 0; i < width; ++i) z[place(i, row, width)] = found[i];
            };
            times(y, before(layer.own_norm), layer.own, width, 3 * width);
            for (int64_t row = 0; row < rows; ++row) {
                float* own = block + ((first + row) * depth + number) * 2 * width;
                for (int64_t i = 0; i < 3 * width; ++i) query[i] = y[place(i, row, 3 * width)];
                for (int64_t head = 0; turn && head < 2 * width; head += width / heads)  // of queries and keys
                    rotate(query + head, turn, width / heads);
                std::copy_n(query + width, 2 * width, own);
                at.assign(past + 1, own);
                for (int64_t s = 0; s < past; ++s) at[s] = lies[row * past + s] + number * 2 * width;
                attended(row);
            }
            times(y, z, layer.own_output, width, width);
            after(layer.own_norm);
            if (layer.memory) {
                times(y, before(layer.cross_norm), layer.query, width, width);
                for (int64_t row = 0; row < rows; ++row) {
                    for (int64_t i = 0; i < width; ++i) query[i] = y[place(i, row, width)];
                    at.clear();
                    for (int64_t s = sentences[first + row] * source, end = s + source; s < end; ++s)
                        if (visible[s]) at.push_back(layer.memory + s * 2 * width);
                    attended(row);
                }
                times(y, z, layer.cross_output, width, width);
                after(layer.cross_norm);
            }
            times(y, before(layer.network_norm), layer.inner, width, activation == 2 ? 2 * inner : inner);
            for (int64_t i = 0; i < inner * columns; ++i) {
                const int64_t gate = i + i / (inner * P) * inner * P;
                z[i] = activation == 0 ? std::max(y[i], 0.0f)
                     : activation == 1 ? 0.5f * y[i] * (1 + std::erf(y[i] * 0.70710678f))
                     : activation == 3 ? y[i] / (1 + std::exp(-y[i]))
                     : y[gate] / (1 + std::exp(-y[gate])) * y[gate + inner * P];
            }
            times(y, z, layer.outer, inner, width);
            after(layer.network_norm);
        }
        if (last.gain) normalised(h, last);
        if (count) {
            logits.resize(vocabulary * columns);
            times(logits.data(), h, output, width, vocabulary);
            for (int64_t line = 0, start = first; line < lines; start = first + ++line)
                choose<P>(logits.data() + line * vocabulary, decoder, P == 1 ? 1 : rows,
                          only_end ? only_end + start : nullptr, gains + start * count, symbols + start * count, count);
        } else
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t i = 0; i < width; ++i) x[(first + row) * width + i] = h[place(i, row, width)];
    }
};

extern "C" void step(const Decoder* decoder, int64_t n, float* x, const int64_t* previous, const float* position,
                     const float* turn, const float* const* blocks, const int64_t* const* origins, int64_t past,
                     float* block, const int64_t* sentences, const uint8_t* only_end, float* gains, int64_t* symbols,
                     int64_t count) {
    const Step whole{*decoder, x, previous, position, turn, blocks, origins, past, block, sentences, only_end, gains,
                     symbols, count};
    const int64_t threads = decoder->threads, size = n > LANES * threads ? 2 * LANES : LANES;
    std::vector<int64_t> starts{0};
    while (starts.back() < n) {
        const int64_t left = n - starts.back();
        starts.push_back(starts.back() + std::min(left, size));
    }
    const int64_t panels = starts.size() - 1;
    const auto walk = [&](int64_t panel) {
        const int64_t first = starts[panel], rows = starts[panel + 1] - first, inside = panels > 1 ? 1 : threads;
        if (rows <= FEW) whole.panel<1>(first, rows, inside);
        else if (rows <= LANES) whole.panel<LANES>(first, rows, inside);
        else whole.panel<2 * LANES>(first, rows, inside);
    };
    if (panels == 1) return walk(0);  // outside of a parallel region, in which a product would start new threads
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t panel = 0; panel < panels; ++panel) walk(panel);
}
