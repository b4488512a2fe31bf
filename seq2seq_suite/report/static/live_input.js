// What is typed, spoken or dropped on the live page.
const liveInput = {
  /** A WAV file of 16 bits from samples in [-1, 1]. */
  wav(chunks, rate) {
    const size = chunks.reduce((sum, one) => sum + one.length, 0), bytes = new DataView(new ArrayBuffer(44 + 2 * size));
    const text = (place, word) => [...word].forEach((letter, i) => bytes.setUint8(place + i, letter.charCodeAt(0)));
    text(0, "RIFF"); bytes.setUint32(4, 36 + 2 * size, true); text(8, "WAVEfmt ");
    [[16, 32, 4], [20, 1, 2], [22, 1, 2], [24, rate, 4], [28, 2 * rate, 4], [32, 2, 2], [34, 16, 2]].forEach(([place, value, width]) =>
      width === 2 ? bytes.setUint16(place, value, true) : bytes.setUint32(place, place === 16 ? 16 : value, true));
    text(36, "data"); bytes.setUint32(40, 2 * size, true);
    let place = 44;
    for (const chunk of chunks) for (const sample of chunk) {
      bytes.setInt16(place, Math.max(-1, Math.min(1, sample)) * 32767, true);
      place += 2;
    }
    return new Blob([bytes], {type: "audio/wav"});
  },

  /** Records until the function that it returns is called; that gives the recording. */
  async record() {
    const stream = await navigator.mediaDevices.getUserMedia({audio: {channelCount: 1}});
    const context = new AudioContext(), source = context.createMediaStreamSource(stream);
    const taps = context.createScriptProcessor(4096, 1, 1), chunks = [];
    taps.onaudioprocess = (event) => chunks.push(event.inputBuffer.getChannelData(0).slice());
    source.connect(taps); taps.connect(context.destination);
    return async () => {
      source.disconnect(); taps.disconnect();
      stream.getTracks().forEach((track) => track.stop());
      await context.close();
      return liveInput.wav(chunks, context.sampleRate);
    };
  },

  /** Asks a run; throws {what, expected, remedy}. */
  async ask(run, input, options) {
    const file = input instanceof Blob, address = "api/predict" + (file ? "/file?" + new URLSearchParams({run, ...options}) : "");
    const request = file ? {method: "POST", body: input, headers: {"content-type": "application/octet-stream"}}
      : {method: "POST", body: JSON.stringify({run, ...input, ...options}), headers: {"content-type": "application/json"}};
    let reply;
    try {
      reply = await fetch(address, request);
    } catch {
      throw {what: "The server does not answer.", expected: "", remedy: "Start it again with serve."};
    }
    const found = await reply.json().catch(() => ({error: {what: `The server answered ${reply.status}.`, expected: "", remedy: ""}}));
    if (!reply.ok) throw found.error;
    return found;
  },
};
